/* gemm.cuh - the ways of a matrix product with weights [out, in], each in a file of its own. None is called without
 * tokens, outputs or inputs. */
#ifndef LH_KERNELS_CUDA_GEMM_CUH
#define LH_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/launch.cuh"

/* Up to so many tokens, the weights are read once and the rest is small beside that: gemm_few.cu. */
#define LH_FEW_TOKENS 8
lh_status lh_gemm_few(lh_stream *stream, const lh_gemm_args *a);

/* One chain of fused multiply-adds for each number: gemm_fixed.cu. */
lh_status lh_gemm_fixed(lh_stream *stream, const lh_gemm_args *a);

#endif
