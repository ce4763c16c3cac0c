/* vecmath.h - elementary functions of vectors. Errors are relative unless said
 * otherwise; all are tested against libm.
 */
#ifndef LH_KERNELS_CPU_VECMATH_H
#define LH_KERNELS_CPU_VECMATH_H

#include "kernels/cpu/vec.h"

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

/* 1 + erf(x), also relative where it is small: above t = |x| = 0.93, 1 - erf(t)
 * is the exponential of a polynomial, below it erf is an odd polynomial. */
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

/* Cosine and sine of any f32 below 2^24, rounded from double. A loop over it
 * becomes vector code: the quadrant is read off the low bits of a sum that
 * leaves no room for a fraction. */
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

#endif
