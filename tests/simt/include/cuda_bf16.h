/* cuda_bf16.h - bf16 numbers of device code, for tests. */
#ifndef LH_TESTS_SIMT_CUDA_BF16_H
#define LH_TESTS_SIMT_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    unsigned short bits;
};

static inline float __bfloat162float(__nv_bfloat16 b)
{
    return __uint_as_float((unsigned)b.bits << 16);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    unsigned u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {(unsigned short)0x7fff};
    return {(unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

/* Two of them in a word, the first in its lower half. */
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
