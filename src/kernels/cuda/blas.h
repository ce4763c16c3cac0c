/* blas.h - large matrix products by cuBLAS. */
#ifndef LH_KERNELS_CUDA_BLAS_H
#define LH_KERNELS_CUDA_BLAS_H

#include "kernels/ops.h"

/* Device memory that cuBLAS may use on a stream, in bytes; counted as LH_MEM_WORK from the stream's first product on.
 */
#define LH_BLAS_ROOM_BYTES (32ll << 20)

/* Opens cuBLAS on a stream and loads the code of bf16 products, not during capture. Warns once if the library is
 * missing. */
lh_status lh_blas_open(lh_stream *stream);

/* Opens cuBLAS if it is not open, and allocates its workspace. *there: 0 if the library is missing. */
lh_status lh_blas_find(lh_stream *stream, int *there);

/* After lh_blas_find: y[t,o] = sum_i x[t,i] * w[o,i] + keep * y[t,o], with the matrices of `a`, summed in f32; its bias
 * and its order are ignored. `in`, `out` and `tokens` are not 0. keep: 0 or 1; with 0 the old y is not read. y_type:
 * type of y, f32 or bf16. */
lh_status lh_blas_gemm(lh_stream *stream, const lh_gemm_args *a, float keep, lh_dtype y_type);

#endif
