/* vec_avx2_bf16.h - vectors of 8 floats: the first elements of a vector, bf16 numbers and pairs of them, transposes. */
#ifndef LH_KERNELS_CPU_VEC_AVX2_BF16_H
#define LH_KERNELS_CPU_VEC_AVX2_BF16_H

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

VEC_FN vf vf_load_bf16_first(const uint16_t *p, int64_t n)
{
    uint16_t whole[8] = {0};
    if (n >= VL) return vf_load_bf16(p);
    for (int64_t i = 0; i < n; i++) whole[i] = p[i];
    return vf_load_bf16(whole);
}

/* Nearest even; NaN stays NaN. */
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
