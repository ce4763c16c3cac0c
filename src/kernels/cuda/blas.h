/* blas.h - large matrix products by cuBLAS. */
#ifndef LH_KERNELS_CUDA_BLAS_H
#define LH_KERNELS_CUDA_BLAS_H

#include "kernels/ops.h"

/* Device memory that cuBLAS may use on a stream, in bytes; counted as LH_MEM_WORK from the stream's first product on.
 */
#define LH_BLAS_ROOM_BYTES (32ll << 20)

/* y[t,o] = sum_i x[t,i] * w[o,i] + keep * y[t,o], with the matrices of `a`, summed in f32; its bias and its order are
 * left alone. `in`, `out` and `tokens` are not 0. keep: 0 or 1; with 0 what is in y may be anything. The first product
 * on a stream loads cuBLAS and allocates its room: it must not be captured in a graph, later ones may. LH_EUSAGE,
 * naming the library, where it is missing. */
lh_status lh_blas_gemm(lh_stream *stream, const lh_gemm_args *a, float keep);

#endif
