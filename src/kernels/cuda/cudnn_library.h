/* cudnn_library.h - cuDNN's functions, loaded on demand: the program starts without the library. */
#ifndef LH_KERNELS_CUDA_CUDNN_LIBRARY_H
#define LH_KERNELS_CUDA_CUDNN_LIBRARY_H

#include <cudnn_graph.h>

#include "base/status.h"

/* LH_CUDNN(result, name, arguments): the functions in use, without the prefix. */
#define LH_CUDNN_FUNCTIONS                                                                                          \
    LH_CUDNN(size_t, GetVersion, (void))                                                                            \
    LH_CUDNN(const char *, GetErrorString, (cudnnStatus_t rc))                                                      \
    LH_CUDNN(cudnnStatus_t, Create, (cudnnHandle_t * handle))                                                       \
    LH_CUDNN(cudnnStatus_t, Destroy, (cudnnHandle_t handle))                                                        \
    LH_CUDNN(cudnnStatus_t, SetStream, (cudnnHandle_t handle, cudaStream_t stream))                                 \
    LH_CUDNN(cudnnStatus_t, BackendCreateDescriptor,                                                                \
             (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * out))                                   \
    LH_CUDNN(cudnnStatus_t, BackendDestroyDescriptor, (cudnnBackendDescriptor_t d))                                 \
    LH_CUDNN(cudnnStatus_t, BackendFinalize, (cudnnBackendDescriptor_t d))                                          \
    LH_CUDNN(cudnnStatus_t, BackendSetAttribute,                                                                    \
             (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,       \
              int64_t count, const void *values))                                                                   \
    LH_CUDNN(cudnnStatus_t, BackendGetAttribute,                                                                    \
             (cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, \
              int64_t most, int64_t *count, void *values))                                                          \
    LH_CUDNN(cudnnStatus_t, BackendExecute,                                                                         \
             (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

typedef struct lh_cudnn {
#define LH_CUDNN(result, name, arguments) result(*name) arguments;
    LH_CUDNN_FUNCTIONS
#undef LH_CUDNN
    const char *file; /* path of the loaded library */
} lh_cudnn;

/* The library stays loaded. LH_EUSAGE, naming it, if it is missing, lacks a function or is older than 9.10. */
lh_status lh_cudnn_open(lh_cudnn *out);

#endif
