/* nccl_library.c - loads NCCL when it is first needed. */
#include "comm/nccl_library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"

static const char library[] = "libnccl.so.2";

/* The first version with ncclCommAbort, grouped sends and asynchronous errors. */
enum { MIN_VERSION = 21000 };

static lh_status find_all(void *handle, lh_nccl *out)
{
#define LH_NCCL(result, name, arguments)                                          \
    do {                                                                          \
        void *found = dlsym(handle, "nccl" #name);                                \
        if (!found) LH_FAIL(LH_EUSAGE, "%s has no function nccl" #name, library); \
        memcpy(&out->name, &found, sizeof found);                                 \
    } while (0);
    LH_NCCL_FUNCTIONS
#undef LH_NCCL
    return LH_OK;
}

lh_status lh_nccl_open(const lh_nccl **out)
{
    static lh_nccl functions; /* filled once; each rank has one thread that communicates */
    static int filled;
    int version = 0;
    if (!filled) {
        void *handle = NULL;
        LH_TRY(lh_library_open(library, &handle));
        LH_TRY(find_all(handle, &functions));
        if (functions.GetVersion(&version) != ncclSuccess || version < MIN_VERSION)
            LH_FAIL(LH_EUSAGE, "%s has version %d, 2.10 or later is needed", library, version);
        functions.file = lh_library_file(handle);
        filled = 1;
    }
    *out = &functions;
    return LH_OK;
}
