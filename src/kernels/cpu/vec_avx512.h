/* vec_avx512.h - vectors of 16 floats; see vec.h. */
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

/* Sets the sign of x >= 0. */
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

/* ---- the first elements of a vector, bf16 numbers and pairs of them, transposes ---- */

VEC_FN vf vf_load_first(const float *p, int64_t n)
{
    return n >= VL ? vf_load(p) : _mm512_maskz_loadu_ps(vm_first(n), p);
}

VEC_FN void vf_store_first(float *p, vf x, int64_t n)
{
    if (n >= VL)
        vf_store(p, x);
    else
        _mm512_mask_storeu_ps(p, vm_first(n), x);
}

VEC_FN vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

VEC_FN vf vf_load_bf16_first(const uint16_t *p, int64_t n)
{
    if (n >= VL) return vf_load_bf16(p);
    __m256i raw = _mm256_maskz_loadu_epi16(vm_first(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

VEC_FN vf vf_load_codes(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Rounds to nearest even; NaN stays NaN. */
VEC_FN __m256i vf_to_bf16(vf x)
{
    __m512i u = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __m512i nan = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, nan));
}

VEC_FN void vf_store_bf16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, vf_to_bf16(x));
}

VEC_FN void vf_store_bf16_first(uint16_t *p, vf x, int64_t n)
{
    if (n >= VL)
        vf_store_bf16(p, x);
    else
        _mm256_mask_storeu_epi16(p, vm_first(n), vf_to_bf16(x));
}

VEC_FN vf vf_even(vf words)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(words), 16));
}

VEC_FN vf vf_odd(vf words)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(words), _mm512_set1_epi32((int32_t)0xffff0000)));
}

VEC_FN vf vf_pair(vf even, vf odd)
{
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd)));
}

#if defined(__AVX512BF16__)
VEC_FN vf vf_dot(vf a, vf b, vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

VEC_FN void vf_store_weights(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x));
}
#else
VEC_FN vf vf_dot(vf a, vf b, vf c)
{
    return vf_fma(vf_odd(a), vf_odd(b), vf_fma(vf_even(a), vf_even(b), c));
}

VEC_FN void vf_store_weights(uint16_t *p, vf x)
{
    vf_store_bf16(p, x);
}
#endif

VEC_FN vf vf_load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

VEC_FN vf vf_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

VEC_FN vf vf_load_e4m3(const uint8_t *p)
{
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16((int16_t)0xbf80)));
}

typedef struct vw {
    __m512i words, bits;
} vw;

VEC_FN vw vw_table(const uint16_t words[16], int16_t bits)
{
    const __m256i all = _mm256_loadu_si256((const __m256i *)words);
    return (vw){_mm512_castsi256_si512(all), _mm512_set1_epi16(bits)};
}

VEC_FN vf vw_load(const uint8_t *codes, vw table)
{
    const __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)codes));
    const __m512i fraction = _mm512_and_si512(x, _mm512_set1_epi16(7));
    const __mmask32 has_exponent = _mm512_test_epi16_mask(x, _mm512_set1_epi16(0x78));
    const __m512i index = _mm512_mask_add_epi16(fraction, has_exponent, fraction, _mm512_set1_epi16(8));
    const __m512i exponent = _mm512_and_si512(_mm512_slli_epi16(x, 4), table.bits);
    return _mm512_castsi512_ps(_mm512_add_epi16(_mm512_permutexvar_epi16(index, table.words), exponent));
}

VEC_FN vi vi_round(vf x)
{
    return _mm512_cvtps_epi32(x);
}

VEC_FN vf vf_from_ints(vi x)
{
    return _mm512_cvtepi32_ps(x);
}

VEC_FN vi vi_look_up(const uint8_t table[16], vi index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), index);
}

#if defined(__AVX512VNNI__)
enum { DOT_BYTES = 1 };
/* The compiler (GCC 12) broadcasts the word by another instruction: 1.4 times the time, on Zen 5. */
VEC_FN vi vi_dot(vi a, const int32_t *word, vi c)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(c) : "v"(a), "m"(*word));
    return c;
}
#else
enum { DOT_BYTES = 0 };
VEC_FN vi vi_dot(vi a, const int32_t *word, vi c)
{
    c = _mm512_add_epi32(c, _mm512_madd_epi16(a, vi_set1(*word)));
    __asm__("" : "+v"(c)); /* or the compiler forms all products of a block before their sums, in memory */
    return c;
}
#endif

VEC_FN void vf_transpose(vf x[VL])
{
    __m512d u[16];
    for (int i = 0; i < 16; i += 2) {
        u[i] = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1]));
        u[i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1]));
    }
    for (int i = 0; i < 16; i += 4) { /* x[i + j]: column j of each 128-bit lane, of rows i .. i + 3 */
        x[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(u[i], u[i + 2]));
        x[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(u[i], u[i + 2]));
        x[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(u[i + 1], u[i + 3]));
        x[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(u[i + 1], u[i + 3]));
    }
    for (int j = 0; j < 4; j++) { /* lanes 0 and 2, 1 and 3 */
        vf even = _mm512_shuffle_f32x4(x[j], x[j + 4], 0x88), odd = _mm512_shuffle_f32x4(x[j], x[j + 4], 0xdd);
        vf even2 = _mm512_shuffle_f32x4(x[j + 8], x[j + 12], 0x88);
        vf odd2 = _mm512_shuffle_f32x4(x[j + 8], x[j + 12], 0xdd);
        x[j] = _mm512_shuffle_f32x4(even, even2, 0x88);
        x[j + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        x[j + 8] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        x[j + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

VEC_FN vf vf_sums(const vf x[VL])
{
    __m512d u[8];
    vf v[4];
    for (int i = 0; i < 8; i++) {
        vf low = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]), high = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
        u[i] = _mm512_castps_pd(_mm512_add_ps(low, high));
    }
    for (int i = 0; i < 4; i++) {
        vf low = _mm512_castpd_ps(_mm512_unpacklo_pd(u[2 * i], u[2 * i + 1]));
        v[i] = _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(u[2 * i], u[2 * i + 1])));
    }
    for (int i = 0; i < 4; i += 2)
        v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[i + 1], 0x88), _mm512_shuffle_f32x4(v[i], v[i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[2], 0x88), _mm512_shuffle_f32x4(v[0], v[2], 0xdd));
}

#endif
