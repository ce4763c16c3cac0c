/* vec_avx2.h - vectors of 8 floats; see vec.h. */
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

/* ---- the first elements of a vector, bf16 numbers and pairs of them, transposes ---- */

VEC_FN vf vf_load_first(const float *p, int64_t n)
{
    return n >= VL ? vf_load(p) : _mm256_maskload_ps(p, vm_first(n));
}

VEC_FN void vf_store_first(float *p, vf x, int64_t n)
{
    if (n >= VL)
        vf_store(p, x);
    else
        _mm256_maskstore_ps(p, vm_first(n), x);
}

VEC_FN vf vf_load_bf16(const uint16_t *p)
{
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}

VEC_FN vf vf_load_codes(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

VEC_FN vf vf_load_bf16_first(const uint16_t *p, int64_t n)
{
    uint16_t whole[8] = {0};
    if (n >= VL) return vf_load_bf16(p);
    for (int64_t i = 0; i < n; i++) whole[i] = p[i];
    return vf_load_bf16(whole);
}

/* Rounds to nearest even; NaN stays NaN. */
VEC_FN __m128i vf_to_bf16(vf x)
{
    __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i words = _mm256_blendv_epi8(rounded, nan, is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

VEC_FN void vf_store_bf16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, vf_to_bf16(x));
}

VEC_FN void vf_store_bf16_first(uint16_t *p, vf x, int64_t n)
{
    uint16_t whole[8];
    if (n >= VL) {
        vf_store_bf16(p, x);
    } else {
        vf_store_bf16(whole, x);
        memcpy(p, whole, (size_t)n * sizeof *p);
    }
}

VEC_FN vf vf_even(vf words)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(words), 16));
}

VEC_FN vf vf_odd(vf words)
{
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(words), _mm256_set1_epi32((int32_t)0xffff0000)));
}

VEC_FN vf vf_pair(vf even, vf odd)
{
    return _mm256_castsi256_ps(
        _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd)));
}

VEC_FN vf vf_dot(vf a, vf b, vf c)
{
    return vf_fma(vf_odd(a), vf_odd(b), vf_fma(vf_even(a), vf_even(b), c));
}

VEC_FN void vf_store_weights(uint16_t *p, vf x)
{
    vf_store_bf16(p, x);
}

VEC_FN vf vf_load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

VEC_FN vf vf_load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

VEC_FN vf vf_load_e4m3(const uint8_t *p)
{
    const __m128i words = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(words, 7), _mm_set1_epi16((int16_t)0xbf80)));
}

typedef struct vw {
    __m128i low, high; /* bytes of the words */
    __m256i bits;
} vw;

VEC_FN vw vw_table(const uint16_t words[16], int16_t bits)
{
    const __m128i first = _mm_loadu_si128((const __m128i *)words), last = _mm_loadu_si128((const __m128i *)(words + 8));
    const __m128i byte = _mm_set1_epi16(255);
    return (vw){_mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(last, byte)),
                _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(last, 8)), _mm256_set1_epi16(bits)};
}

VEC_FN vf vw_load(const uint8_t *codes, vw table)
{
    const __m128i zero = _mm_setzero_si128(), x = _mm_loadu_si128((const __m128i *)codes);
    const __m128i no_exponent = _mm_cmpeq_epi8(_mm_and_si128(x, _mm_set1_epi8(0x78)), zero);
    const __m128i index =
        _mm_or_si128(_mm_and_si128(x, _mm_set1_epi8(7)), _mm_andnot_si128(no_exponent, _mm_set1_epi8(8)));
    const __m128i low = _mm_shuffle_epi8(table.low, index), high = _mm_shuffle_epi8(table.high, index);
    const __m256i words = _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
    const __m256i exponent = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 4), table.bits);
    return _mm256_castsi256_ps(_mm256_add_epi16(words, exponent));
}

VEC_FN vi vi_round(vf x)
{
    return _mm256_cvtps_epi32(x);
}

VEC_FN vf vf_from_ints(vi x)
{
    return _mm256_cvtepi32_ps(x);
}

VEC_FN vi vi_look_up(const uint8_t table[16], vi index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), index);
}

enum { DOT_BYTES = 0 };
VEC_FN vi vi_dot(vi a, const int32_t *word, vi c)
{
    c = _mm256_add_epi32(c, _mm256_madd_epi16(a, vi_set1(*word)));
    __asm__("" : "+x"(c)); /* or the compiler forms all products of a block before their sums, in memory */
    return c;
}

VEC_FN void vf_transpose(vf x[VL])
{
    vf u[8];
    for (int i = 0; i < 8; i += 2) {
        u[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        u[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) { /* x[i + j]: column j of each 128-bit lane, of rows i .. i + 3 */
        x[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        vf low = _mm256_permute2f128_ps(x[j], x[j + 4], 0x20);
        x[j + 4] = _mm256_permute2f128_ps(x[j], x[j + 4], 0x31);
        x[j] = low;
    }
}

VEC_FN vf vf_sums(const vf x[VL])
{
    __m256d u[4];
    vf v[2];
    for (int i = 0; i < 4; i++) {
        vf low = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]), high = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
        u[i] = _mm256_castps_pd(_mm256_add_ps(low, high));
    }
    for (int i = 0; i < 2; i++) {
        vf low = _mm256_castpd_ps(_mm256_unpacklo_pd(u[2 * i], u[2 * i + 1]));
        v[i] = _mm256_add_ps(low, _mm256_castpd_ps(_mm256_unpackhi_pd(u[2 * i], u[2 * i + 1])));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(v[0], v[1], 0x20), _mm256_permute2f128_ps(v[0], v[1], 0x31));
}

#endif
