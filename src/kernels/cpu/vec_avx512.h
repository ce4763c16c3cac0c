/* vec_avx512.h - vectors of 16 floats. What the names promise is in vec.h. */
#ifndef LH_KERNELS_CPU_VEC_AVX512_H
#define LH_KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>

enum { VL = 16 };
#if defined(__AVX512BF16__)
enum { PAIRS = 1 };
#else
enum { PAIRS = 0 };
#endif
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

VEC_FN vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

VEC_FN void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

VEC_FN vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

VEC_FN vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

VEC_FN vi vi_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}

VEC_FN vi vi_iota(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

VEC_FN vm vi_gt(vi a, vi b)
{
    return _mm512_cmpgt_epi32_mask(a, b);
}

VEC_FN vm vm_and(vm a, vm b)
{
    return a & b;
}

VEC_FN vm vm_not(vm m)
{
    return (vm)~m;
}

VEC_FN vm vm_first(int64_t n)
{
    return n >= 16 ? (vm)0xffff : (vm)((1u << n) - 1u);
}

VEC_FN int vm_any(vm m)
{
    return m != 0;
}

VEC_FN vf vf_where(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

VEC_FN vm vf_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

VEC_FN vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

VEC_FN vf vf_fused(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

VEC_FN vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

VEC_FN vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

VEC_FN vf vf_abs(vf x)
{
    return _mm512_abs_ps(x);
}

/* Sign of `sign`, which x >= 0 has not. */
VEC_FN vf vf_with_sign(vf x, vf sign)
{
    __m512i bit = _mm512_and_si512(_mm512_castps_si512(sign), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(x), bit));
}

VEC_FN vf vf_add_exponent(vf x, vf whole)
{
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(whole), 23)));
}

/* To the nearest integer. */
VEC_FN vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

VEC_FN vf vf_scale2(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}

VEC_FN float vf_sum(vf x)
{
    return _mm512_reduce_add_ps(x);
}

VEC_FN float vf_top(vf x)
{
    return _mm512_reduce_max_ps(x);
}

#include "kernels/cpu/vec_avx512_bf16.h"

#endif
