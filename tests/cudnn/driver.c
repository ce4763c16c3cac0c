/* A driver of CUDA in name: cuDNN, where there is no device, compiles its kernels and then gives them to this one,
 * which takes what it is given. All else it answers as the toolkit's stub does. */
enum { FINE = 0, STUB = 34 };

#define TAKES(name)        \
    int name(void **out);  \
    int name(void **out)   \
    {                      \
        *out = (void *)64; \
        return FINE;       \
    }
#define ANSWERS(name, rc) \
    int name(void);       \
    int name(void)        \
    {                     \
        return rc;        \
    }

TAKES(cuLibraryLoadData)
TAKES(cuLibraryGetKernel)
TAKES(cuLibraryGetModule)
TAKES(cuModuleGetFunction)
TAKES(cuKernelGetFunction)
ANSWERS(cuLibraryUnload, FINE)
ANSWERS(cuFuncSetAttribute, FINE)
ANSWERS(cuKernelSetAttribute, FINE)

ANSWERS(cuCtxGetCurrent, STUB)
ANSWERS(cuCtxGetLimit, STUB)
ANSWERS(cuCtxPopCurrent, STUB)
ANSWERS(cuCtxPushCurrent, STUB)
ANSWERS(cuDeviceGet, STUB)
ANSWERS(cuDeviceGetCount, STUB)
ANSWERS(cuDriverGetVersion, STUB)
ANSWERS(cuGetErrorName, STUB)
ANSWERS(cuGetErrorString, STUB)
ANSWERS(cuKernelGetAttribute, STUB)
ANSWERS(cuLaunchCooperativeKernel, STUB)
ANSWERS(cuLaunchKernel, STUB)
ANSWERS(cuLaunchKernelEx, STUB)
ANSWERS(cuLibraryLoadFromFile, STUB)
ANSWERS(cuLinkAddData, STUB)
ANSWERS(cuLinkComplete, STUB)
ANSWERS(cuLinkCreate, STUB)
ANSWERS(cuLinkDestroy, STUB)
ANSWERS(cuOccupancyMaxPotentialClusterSize, STUB)
ANSWERS(cuStreamGetCtx, STUB)
