/* Opens cuDNN on demand. */
#include "kernels/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"

/* The major version of the header: "libcudnn.so.9". */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char library[] = "libcudnn.so." TEXT(CUDNN_MAJOR);

/* Ragged caches with a mask aligned at the bottom right (9.6), and masking with -inf (9.10). */
enum { MIN_VERSION = 91000 };

static lh_status find_all(void *handle, lh_cudnn *out)
{
#define LH_CUDNN(result, name, arguments)                                          \
    do {                                                                           \
        void *found = dlsym(handle, "cudnn" #name);                                \
        if (!found) LH_FAIL(LH_EUSAGE, "%s has no function cudnn" #name, library); \
        memcpy(&out->name, &found, sizeof found);                                  \
    } while (0);
    LH_CUDNN_FUNCTIONS
#undef LH_CUDNN
    return LH_OK;
}

lh_status lh_cudnn_open(lh_cudnn *out)
{
    void *handle = NULL;
    LH_TRY(lh_library_open(library, &handle));
    LH_TRY(find_all(handle, out));
    out->file = lh_library_file(handle);
    if (out->GetVersion() < MIN_VERSION)
        LH_FAIL(LH_EUSAGE, "%s is of version %zu; 9.10 (91000) or later is needed", library, out->GetVersion());
    return LH_OK;
}
