/* blas_library.h - cuBLAS's functions, loaded on demand: the program starts without the library. */
#ifndef LH_KERNELS_CUDA_BLAS_LIBRARY_H
#define LH_KERNELS_CUDA_BLAS_LIBRARY_H

#include <cublas_v2.h>

#include "base/status.h"

/* LH_CUBLAS(result, name, symbol, arguments): the functions in use, without the prefix. */
#define LH_CUBLAS_FUNCTIONS                                                                                            \
    LH_CUBLAS(cublasStatus_t, Create, "cublasCreate_v2", (cublasHandle_t * handle))                                    \
    LH_CUBLAS(cublasStatus_t, Destroy, "cublasDestroy_v2", (cublasHandle_t handle))                                    \
    LH_CUBLAS(cublasStatus_t, SetStream, "cublasSetStream_v2", (cublasHandle_t handle, cudaStream_t stream))           \
    LH_CUBLAS(cublasStatus_t, SetWorkspace, "cublasSetWorkspace_v2",                                                   \
              (cublasHandle_t handle, void *workspace, size_t bytes))                                                  \
    LH_CUBLAS(cublasStatus_t, SetMathMode, "cublasSetMathMode", (cublasHandle_t handle, cublasMath_t mode))            \
    LH_CUBLAS(cublasStatus_t, GemmEx, "cublasGemmEx_64",                                                               \
              (cublasHandle_t handle, cublasOperation_t a_as, cublasOperation_t b_as, int64_t m, int64_t n, int64_t k, \
               const void *alpha, const void *a, cudaDataType a_type, int64_t lda, const void *b, cudaDataType b_type, \
               int64_t ldb, const void *beta, void *c, cudaDataType c_type, int64_t ldc, cublasComputeType_t compute,  \
               cublasGemmAlgo_t algorithm))                                                                            \
    LH_CUBLAS(const char *, GetStatusString, "cublasGetStatusString", (cublasStatus_t rc))

typedef struct lh_cublas {
#define LH_CUBLAS(result, name, symbol, arguments) result(*name) arguments;
    LH_CUBLAS_FUNCTIONS
#undef LH_CUBLAS
    const char *file; /* path of the loaded library */
} lh_cublas;

/* The library stays loaded. LH_EUSAGE, naming it, if it is missing or lacks a function. */
lh_status lh_cublas_open(lh_cublas *out);

#endif
