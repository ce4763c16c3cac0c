/* candidates.cuh - candidates for the largest number of a row: a key, and below it the complement of the column. A
 * larger candidate is better, no two are equal, and no candidate is 0. */
#ifndef LH_KERNELS_CUDA_CANDIDATES_CUH
#define LH_KERNELS_CUDA_CANDIDATES_CUH

#include "kernels/cuda/warp.cuh"

typedef unsigned long long lh_candidate;

static __device__ __forceinline__ lh_candidate lh_candidate_of(float x, int64_t column)
{
    return (lh_candidate)lh_score_key(x) << 32 | (uint32_t) ~(uint32_t)column;
}
static __device__ __forceinline__ int64_t lh_candidate_column(lh_candidate c)
{
    return (int64_t)(uint32_t) ~(uint32_t)c;
}

#endif
