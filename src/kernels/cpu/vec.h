/* vec.h - vectors of VL floats in one instruction set. The file isa_*.c that compiles the backend for a set chooses the
 * header below; everything else is written once, in these words:
 *
 *   vf, vi, vm                  VL floats, VL int32, a mask of VL lanes
 *   vf_load, vf_store, vi_load  from and to any address
 *   vf_load_bf16, …_store_bf16  bf16 there, f32 here
 *   …_first(…, n)               the first min(n, VL) elements only, n > 0; the other lanes of a load are 0
 *   vf_set1, vi_set1, vi_iota   one value in all lanes; 0, 1, 2, …
 *   vf_fma, vf_fused            a * b + c; vf_fused always with one rounding, vf_fma where that is fast
 *   vf_max, vf_min              the second operand where either is NaN
 *   vf_abs, vf_with_sign
 *   vf_add_exponent(x, y)       x * 2^n for y = 1.5 * 2^23 + n and normal results; NaN where both are the usual one
 *   vf_sum, vf_top              over the lanes, always in the same order; vf_sums(x): lane i is the sum of x[i]
 *   vf_transpose(x)             x[i] lane j = x[j] lane i, for VL vectors
 *   vf_lt, vi_gt, vm_first(n)   masks; vm_and, vm_not, vm_any; vf_where(m, a, b): a where m is set, else b
 *   vf_even, vf_odd             of VL words of two bf16, those of even and those of odd index as floats
 *   vf_pair(even, odd)          the reverse: words of floats that are exact in bf16
 *   vf_store_weights            vf_store_bf16 for what is 0 or normal
 *   vf_dot(a, b, c)             c + the products of both bf16 in each word of a and b; PAIRS: 1 where that is an
 *                               instruction
 *
 * + - * / work on vf. */
#ifndef LH_KERNELS_CPU_VEC_H
#define LH_KERNELS_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#define VEC_FN static inline __attribute__((always_inline, unused))

#include LH_VEC_HEADER

VEC_FN vf vf_zero(void)
{
    return vf_set1(0.0f);
}

/* VL words of two bf16, of which the first n elements are there; the others are
 * 0. */
VEC_FN vf vf_load_words(const uint16_t *p, int64_t n)
{
    uint16_t whole[2 * VL] = {0};
    if (n >= 2 * VL) return vf_load((const float *)(const void *)p);
    memcpy(whole, p, (size_t)n * sizeof *p);
    return vf_load((const float *)(const void *)whole);
}

/* From and to an array of f32 or bf16 at element i. */
VEC_FN vf vf_load_any(const void *p, lh_dtype type, int64_t i)
{
    return type == LH_F32 ? vf_load((const float *)p + i) : vf_load_bf16((const uint16_t *)p + i);
}

VEC_FN vf vf_load_any_first(const void *p, lh_dtype type, int64_t i, int64_t n)
{
    return type == LH_F32 ? vf_load_first((const float *)p + i, n) : vf_load_bf16_first((const uint16_t *)p + i, n);
}

VEC_FN void vf_store_any_first(void *p, lh_dtype type, int64_t i, vf x, int64_t n)
{
    if (type == LH_F32)
        vf_store_first((float *)p + i, x, n);
    else
        vf_store_bf16_first((uint16_t *)p + i, x, n);
}

#endif
