/* blas.h - large matrix products by cuBLAS. */
#ifndef LH_KERNELS_CUDA_BLAS_H
#define LH_KERNELS_CUDA_BLAS_H

#include "kernels/ops.h"

/* Device memory that cuBLAS may use on a stream, in bytes; counted as LH_MEM_WORK from the stream's first product on.
 */
#define LH_BLAS_ROOM_BYTES (32ll << 20)

/* Opens cuBLAS on a stream: not while work is recorded. A warning says once that the library is missing. */
lh_status lh_blas_open(lh_stream *stream);

/* Opens it where it is not open, and allocates its room. *there: 0 where the library is missing. */
lh_status lh_blas_find(lh_stream *stream, int *there);

/* After lh_blas_find: y[t,o] = sum_i x[t,i] * w[o,i] + keep * y[t,o], with the matrices of `a`, summed in f32; its bias
 * and its order are left alone. `in`, `out` and `tokens` are not 0. keep: 0 or 1; with 0 what is in y may be anything.
 * y_type: of the numbers in y, f32 or bf16. */
lh_status lh_blas_gemm(lh_stream *stream, const lh_gemm_args *a, float keep, lh_dtype y_type);

#endif
