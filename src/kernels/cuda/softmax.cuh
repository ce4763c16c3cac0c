/* softmax.cuh - visibility, logits and weights of a row. */
#ifndef LH_KERNELS_CUDA_SOFTMAX_CUH
#define LH_KERNELS_CUDA_SOFTMAX_CUH

#include "kernels/cuda/warp.cuh"

#define LH_LOG2E 1.4426950408889634f

/* The number subtracted from logits with the maximum `row_max`; 0 for -inf, since -inf - -inf is NaN. */
static __device__ __forceinline__ float lh_shift(float row_max)
{
    return row_max == -INFINITY ? 0.0f : row_max;
}

/* 2^x with a relative error of 2^-22; 0 below 2^-126. */
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

/* tanh(x) with a relative error of 2^-11. */
static __device__ __forceinline__ float lh_tanh_fast(float x)
{
#ifdef LH_SIMT
    return __uint_as_float((__float_as_uint(tanhf(x)) + 0x1000u) & ~0x1fffu);
#else
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
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
