/* softmax.cuh - what a row sees, its logits and its weights. */
#ifndef LH_KERNELS_CUDA_SOFTMAX_CUH
#define LH_KERNELS_CUDA_SOFTMAX_CUH

#include "kernels/cuda/warp.cuh"

/* Positions that a row sees: those in (before, last]. Positions of entries are not negative. */
typedef struct lh_sight {
    int before, last;
} lh_sight;

static __device__ __forceinline__ lh_sight lh_sight_of(const int32_t *positions, const int32_t *until, int64_t window,
                                                       int64_t r)
{
    int64_t p = positions[r], before = window > 0 ? p - window : -1;
    return lh_sight{before < -1 ? -1 : (int)before, until ? until[r] : (int)p};
}

static __device__ __forceinline__ int lh_sees(lh_sight s, int position)
{
    return position > s.before && position <= s.last;
}

#define LH_LOG2E 1.4426950408889634f

/* What is subtracted from logits of which the highest is `row_max`: -inf would make numbers of nothing. */
static __device__ __forceinline__ float lh_shift(float row_max)
{
    return row_max == -INFINITY ? 0.0f : row_max;
}

/* 2^x, off by 2^-22 of it; 0 below 2^-126. */
static __device__ __forceinline__ float lh_exp2(float x)
{
#ifdef LH_SIMT
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* exp(x - shift) */
static __device__ __forceinline__ float lh_weight(float x, float shift)
{
    return lh_exp2((x - shift) * LH_LOG2E);
}

static __device__ __forceinline__ float lh_capped(float s, float cap)
{
    return cap > 0 ? cap * tanhf(s / cap) : s;
}

#endif
