/* vec_avx2.h - vectors of 8 floats. What the names promise is in vec.h. */
#ifndef LH_KERNELS_CPU_VEC_AVX2_H
#define LH_KERNELS_CPU_VEC_AVX2_H

#include <immintrin.h>

enum { VL = 8, PAIRS = 0 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vm;

VEC_FN vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

VEC_FN void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

VEC_FN vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

VEC_FN vi vi_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}

VEC_FN vi vi_load(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

VEC_FN vi vi_iota(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

VEC_FN vm vi_gt(vi a, vi b)
{
    return _mm256_cmpgt_epi32(a, b);
}

VEC_FN vm vm_and(vm a, vm b)
{
    return _mm256_and_si256(a, b);
}

VEC_FN vm vm_not(vm m)
{
    return _mm256_xor_si256(m, _mm256_set1_epi32(-1));
}

VEC_FN vm vm_first(int64_t n)
{
    return vi_gt(vi_set1(n >= 8 ? 8 : (int32_t)n), vi_iota());
}

VEC_FN int vm_any(vm m)
{
    return _mm256_movemask_epi8(m) != 0;
}

VEC_FN vf vf_where(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}

VEC_FN vm vf_lt(vf a, vf b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

VEC_FN vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

VEC_FN vf vf_fused(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

VEC_FN vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

VEC_FN vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

VEC_FN vf vf_abs(vf x)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX)));
}

VEC_FN vf vf_with_sign(vf x, vf sign)
{
    return _mm256_or_ps(x, _mm256_and_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MIN))));
}

VEC_FN vf vf_add_exponent(vf x, vf whole)
{
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(whole), 23)));
}

VEC_FN vf vf_round(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

VEC_FN vf vf_scale2(vf x, vf n)
{
    return vf_add_exponent(x, n + vf_set1(12582912.0f));
}

VEC_FN float vf_sum(vf x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

VEC_FN float vf_top(vf x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

#include "kernels/cpu/vec_avx2_bf16.h"

#endif
