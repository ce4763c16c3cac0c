/* Opens cuBLAS at the first product on a device: the program runs without the library. */
#include "kernels/cuda/blas_library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"

/* The major version of the header: "libcublas.so.13". */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char library[] = "libcublas.so." TEXT(CUBLAS_VER_MAJOR);

lh_status lh_cublas_open(lh_cublas *out)
{
    void *handle = NULL;
    LH_TRY(lh_library_open(library, &handle));
#define LH_CUBLAS(result, name, symbol, arguments)                             \
    do {                                                                       \
        void *found = dlsym(handle, symbol);                                   \
        if (!found) LH_FAIL(LH_EUSAGE, "%s has no function " symbol, library); \
        memcpy(&out->name, &found, sizeof found);                              \
    } while (0);
    LH_CUBLAS_FUNCTIONS
#undef LH_CUBLAS
    out->file = lh_library_file(handle);
    return LH_OK;
}
