/* warp.cuh - sums, maxima and scans over a warp or a block, in a fixed order, and numbers of two types. */
#ifndef LH_KERNELS_CUDA_WARP_CUH
#define LH_KERNELS_CUDA_WARP_CUH

#include "kernels/cuda/launch.cuh"

#define LH_WARP 32
#define LH_ALL 0xffffffffu

static __device__ __forceinline__ int lh_lane(void)
{
    return (int)(threadIdx.x % LH_WARP);
}

static __device__ __forceinline__ int lh_warp(void)
{
    return (int)(threadIdx.x / LH_WARP);
}

/* Every lane gets the result; the order of additions is the same in every lane. */
template <typename T>
static __device__ __forceinline__ T lh_warp_sum(T x)
{
    for (int with = LH_WARP / 2; with > 0; with /= 2) x += __shfl_xor_sync(LH_ALL, x, with);
    return x;
}

template <typename T>
static __device__ __forceinline__ T lh_warp_max(T x)
{
    for (int with = LH_WARP / 2; with > 0; with /= 2) {
        T other = __shfl_xor_sync(LH_ALL, x, with);
        x = other > x ? other : x;
    }
    return x;
}

/* The sum over the lanes before this one. */
template <typename T>
static __device__ __forceinline__ T lh_warp_before(T x)
{
    T sum = x;
    for (int by = 1; by < LH_WARP; by *= 2) {
        T other = __shfl_up_sync(LH_ALL, sum, (unsigned)by);
        if (lh_lane() >= by) sum += other;
    }
    return sum - x;
}

/* Over the block; `room`: shared, [32]. Every thread calls it and gets the result. */
template <typename T>
static __device__ T lh_block_sum(T x, T *room)
{
    T sum = lh_warp_sum(x), all = 0;
    int warps = (int)(blockDim.x / LH_WARP);
    __syncthreads(); /* `room` was read before */
    if (lh_lane() == 0) room[lh_warp()] = sum;
    __syncthreads();
    for (int w = 0; w < warps; w++) all += room[w];
    return all;
}

template <typename T>
static __device__ T lh_block_max(T x, T *room)
{
    T most = lh_warp_max(x);
    int warps = (int)(blockDim.x / LH_WARP);
    __syncthreads();
    if (lh_lane() == 0) room[lh_warp()] = most;
    __syncthreads();
    for (int w = 0; w < warps; w++) most = room[w] > most ? room[w] : most;
    return most;
}

/* The sum over the threads before this one, and over all threads in *total. */
template <typename T>
static __device__ T lh_block_before(T x, T *room, T *total)
{
    T before = lh_warp_before(x), earlier = 0, all = 0;
    int warps = (int)(blockDim.x / LH_WARP);
    __syncthreads();
    if (lh_lane() == LH_WARP - 1) room[lh_warp()] = before + x;
    __syncthreads();
    for (int w = 0; w < warps; w++) {
        if (w < lh_warp()) earlier += room[w];
        all += room[w];
    }
    *total = all;
    return earlier + before;
}

/* Numbers of any type as f32. */
static __device__ __forceinline__ float lh_number(float x)
{
    return x;
}
static __device__ __forceinline__ float lh_number(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ void lh_put(float *at, float x)
{
    *at = x;
}
static __device__ __forceinline__ void lh_put(__nv_bfloat16 *at, float x)
{
    *at = __float2bfloat16_rn(x);
}

/* Candidates for the largest number of a row: a key, and below it the complement of the column. A
 * larger candidate is better, no two are equal, and no candidate is 0. */

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
