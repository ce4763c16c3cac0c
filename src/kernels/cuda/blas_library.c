/* cuBLAS, opened when a device first multiplies: the program runs where it is missing. */
#include "kernels/cuda/blas_library.h"

#include <dlfcn.h>
#include <string.h>

/* The version that the header is of: "libcublas.so.13". */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char library[] = "libcublas.so." TEXT(CUBLAS_VER_MAJOR);

lh_status lh_cublas_open(lh_cublas *out)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        LH_FAIL(LH_EUSAGE,
                "cuBLAS was not found (%s): it comes with the CUDA toolkit; put its folder in LD_LIBRARY_PATH",
                dlerror());
#define LH_CUBLAS(result, name, symbol, arguments)                             \
    do {                                                                       \
        void *found = dlsym(handle, symbol);                                   \
        if (!found) LH_FAIL(LH_EUSAGE, "%s has no function " symbol, library); \
        memcpy(&out->name, &found, sizeof found);                              \
    } while (0);
    LH_CUBLAS_FUNCTIONS
#undef LH_CUBLAS
    return LH_OK;
}
