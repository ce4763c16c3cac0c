/* vec.h - vectors of VL floats in one instruction set. The file isa_*.c of a set chooses the header below; all other
 * code is written once, with these names:
 *
 *   vf, vi, vm                  VL floats, VL int32, a mask of VL lanes
 *   vf_load, vf_store, vi_load  from and to any address
 *   vf_load_bf16, …_store_bf16  bf16 in memory, f32 in the vector
 *   …_first(…, n)               only the first min(n, VL) elements, n > 0; other lanes of a load are 0
 *   vf_set1, vi_set1, vi_iota   one value in all lanes; 0, 1, 2, …
 *   vf_fma, vf_fused            a * b + c; vf_fused always with one rounding, vf_fma if that is fast
 *   vf_max, vf_min              the second operand if either is NaN
 *   vf_abs, vf_with_sign
 *   vf_add_exponent(x, y)       x * 2^n for y = 1.5 * 2^23 + n and normal results; NaN if both are the usual NaN
 *   vf_sum, vf_top              over the lanes, always in the same order; vf_sums(x): lane i is the sum of x[i]
 *   vf_transpose(x)             x[i] lane j = x[j] lane i, for VL vectors
 *   vf_lt, vi_gt, vm_first(n)   masks; vm_and, vm_not, vm_any; vf_where(m, a, b): a where m is set, else b
 *   vf_even, vf_odd             the bf16 of even and of odd index in VL words of two, as floats
 *   vf_pair(even, odd)          the inverse: words from floats that are exact in bf16
 *   vf_store_weights            vf_store_bf16 for numbers that are 0 or normal
 *   vf_dot(a, b, c)             c + the products of both bf16 in each word of a and b; PAIRS: 1 if that is an
 *                               instruction
 *   vf_load_f16, vf_load_i8     VL f16 or int8 as floats
 *   vf_load_e4m3                VL floats of 8 bits, divided by 256
 *   vw                          bf16 numbers that the 256 floats of 8 bits stand for
 *   vw_table(words, bits)       from the numbers of the exponent 0, then 8 numbers of which 2^exponent times are those
 *                               of exponents from 1 on; bits: of the words of floats divided by 2^4, that are added
 *   vw_load(codes, table)       words of the numbers of 2 VL floats of 8 bits
 *   vi_round, vf_from_ints      to the nearest integer, ties to even, of |x| < 2^31; the inverse, rounded
 *   vi_dot(a, word, c)          c + the products of the integers in each word of a and in *word: DOT_BYTES 1: 4
 * unsigned bytes of a and 4 signed ones of *word; 0: 2 signed numbers of 16 bits
 *
 * The operators + - * / work on vf. */
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

/* VL words of two bf16, with n elements in memory; the rest is 0. */
VEC_FN vf vf_load_words(const uint16_t *p, int64_t n)
{
    uint16_t whole[2 * VL] = {0};
    if (n >= 2 * VL) return vf_load((const float *)(const void *)p);
    memcpy(whole, p, (size_t)n * sizeof *p);
    return vf_load((const float *)(const void *)whole);
}

/* From and to element i of an array of f32 or bf16. */
VEC_FN vf vf_load_any(const void *p, lh_dtype type, int64_t i)
{
    return type == LH_F32 ? vf_load((const float *)p + i) : vf_load_bf16((const uint16_t *)p + i);
}

VEC_FN vf vf_load_any_first(const void *p, lh_dtype type, int64_t i, int64_t n)
{
    return type == LH_F32 ? vf_load_first((const float *)p + i, n) : vf_load_bf16_first((const uint16_t *)p + i, n);
}

/* Of codes. */
VEC_FN vf vf_load_codes_first(const int8_t *p, int64_t n)
{
    if (n >= VL) return vf_load_codes(p);
    int8_t codes[VL] = {0};
    memcpy(codes, p, (size_t)n);
    return vf_load_codes(codes);
}

VEC_FN void vf_store_any_first(void *p, lh_dtype type, int64_t i, vf x, int64_t n)
{
    if (type == LH_F32)
        vf_store_first((float *)p + i, x, n);
    else
        vf_store_bf16_first((uint16_t *)p + i, x, n);
}

/* ---- elementary functions; errors are relative unless said otherwise, and all are tested against libm ---- */

/* 2^f for |f| <= 1/2; error 1e-7, and 2^0 is exactly 1. The polynomial is the minimax one for (2^f - 1) / f: its error
 * of 8e-9 is below that of the arithmetic. */
VEC_FN vf vf_exp2_fraction(vf f)
{
    vf p = vf_set1(0.000154696376f);
    p = vf_fma(p, f, vf_set1(0.0013390698f));
    p = vf_fma(p, f, vf_set1(0.00961803086f));
    p = vf_fma(p, f, vf_set1(0.0555035770f));
    p = vf_fma(p, f, vf_set1(0.240226507f));
    p = vf_fma(p, f, vf_set1(0.693147182f));
    return vf_fma(p, f, vf_set1(1.0f));
}

/* e^x for x <= 0, -inf included; 0 below -86. Exactly 1 at 0. */
VEC_FN vf vf_exp_negative(vf x)
{
    const vf log2e = vf_set1(1.44269504f);
    vf n = vf_round(x * log2e), f = vf_fma(x, log2e, vf_zero() - n);
    return vf_where(vf_lt(x, vf_set1(-86.0f)), vf_zero(), vf_scale2(vf_exp2_fraction(f), n));
}

/* e^x; 0 below -87, at most 2^127 * 1.3. The bounds come first, so that NaN passes them. */
VEC_FN vf vf_exp(vf x)
{
    const vf log2e = vf_set1(1.44269504f), rest = vf_set1(1.92596303e-8f), whole = vf_set1(12582912.0f);
    vf bounded = vf_min(vf_set1(88.3f), vf_max(vf_set1(-87.0f), x)), shifted = vf_fma(bounded, log2e, whole);
    vf f = vf_fma(bounded, rest, vf_fma(bounded, log2e, whole - shifted));
    return vf_where(vf_lt(x, vf_set1(-87.0f)), vf_zero(), vf_add_exponent(vf_exp2_fraction(f), shifted));
}

/* Cephes' polynomial where e^2x would cancel. */
VEC_FN vf vf_tanh(vf x)
{
    vf size = vf_abs(x), z = x * x, one = vf_set1(1.0f);
    vf large = one - vf_set1(2.0f) / (vf_exp(size + size) + one);
    vf p = vf_set1(-5.70498872745e-3f);
    p = vf_fma(p, z, vf_set1(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
    return vf_where(vf_lt(size, vf_set1(0.625f)), vf_fma(p * z, x, x), vf_with_sign(large, x));
}

/* 1 + erf(x), with a relative error also for small values: above t = |x| = 0.93, 1 - erf(t) is the exponential of a
 * polynomial, below it erf is an odd polynomial. */
VEC_FN vf vf_one_plus_erf(vf x)
{
    vf t = vf_abs(x), s = x * x, one = vf_set1(1.0f);
    vf r = vf_fma(vf_set1(-1.72853470e-5f), t, vf_set1(3.83197126e-4f));
    r = vf_fma(r, s, vf_fma(vf_set1(-3.88396438e-3f), t, vf_set1(2.42546219e-2f)));
    r = vf_fma(r, t, vf_set1(-1.06777877e-1f));
    r = vf_fma(r, t, vf_set1(-6.34846687e-1f));
    r = vf_fma(r, t, vf_set1(-1.28717512e-1f));
    vf tail = vf_exp(vf_fma(r, t, vf_zero() - t));
    vf large = vf_where(vf_lt(x, vf_zero()), tail, vf_set1(2.0f) - tail);
    vf p = vf_set1(-5.96761703e-4f);
    p = vf_fma(p, s, vf_set1(4.99119423e-3f));
    p = vf_fma(p, s, vf_set1(-2.67681349e-2f));
    p = vf_fma(p, s, vf_set1(1.12819925e-1f));
    p = vf_fma(p, s, vf_set1(-3.76125336e-1f));
    p = vf_fma(p, s, vf_set1(1.28379166e-1f));
    return vf_where(vf_lt(t, vf_set1(0.927734375f)), one + vf_fma(p, x, x), large);
}

/* Cosine and sine of any f32 below 2^24, rounded from double. The compiler vectorises a loop over it: the quadrant is
 * in the low bits of a sum that has no bits for a fraction. */
VEC_FN void sin_cos(float angle, float *sine, float *cosine)
{
    const double whole = 6755399441055744.0; /* 1.5 * 2^52 */
    double a = angle, shifted = a * 0.63661977236758134308 + whole, n = shifted - whole;
    double r = (a - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11, z = r * r;
    double s =
        r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
    double c =
        1.0 +
        z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z / 479001600.0)))));
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    double first = bits & 1 ? c : s, second = bits & 1 ? s : c;
    *sine = (float)(bits & 2 ? -first : first);
    *cosine = (float)((bits + 1) & 2 ? -second : second);
}

/* The rotation of n pairs of channels by a position: `scale` times sine and cosine of its product with the frequencies.
 */
VEC_FN void rotation_of(int32_t position, const float *inv_freq, float scale, int64_t n, float *sine, float *cosine)
{
    for (int64_t i = 0; i < n; i++) {
        sin_cos((float)position * inv_freq[i], &sine[i], &cosine[i]);
        sine[i] *= scale;
        cosine[i] *= scale;
    }
}

#endif
