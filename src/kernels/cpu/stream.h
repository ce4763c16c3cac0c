/* stream.h - rows in memory (weights, keys, values) that are read once, unpacked, and multiplied with a few vectors
 * that stay in the L1 cache. A row is read in steps of one vector load: VL floats or codes, or 2 VL bf16 as words of
 * two. */
#ifndef LH_KERNELS_CPU_STREAM_H
#define LH_KERNELS_CPU_STREAM_H

#include "kernels/cpu/common.h"

/* How the elements of a row are multiplied with a vector: as floats; as codes that become floats, without their scale;
 * as words that are split into floats of even and of odd index; as words with a dot product of both halves. */
typedef enum lh_meet { MEET_F32, MEET_CODES, MEET_SPLIT, MEET_PAIRS } lh_meet;

/* True if a step is a vector of floats in their order. */
VEC_FN int in_order(const lh_meet kind)
{
    return kind == MEET_F32 || kind == MEET_CODES;
}

/* Elements of a row, and floats (or words) of the vector, in a step. */
VEC_FN int64_t step_elements(const lh_meet kind)
{
    return in_order(kind) ? VL : 2 * VL;
}

VEC_FN int64_t step_floats(const lh_meet kind)
{
    return kind == MEET_SPLIT ? 2 * VL : VL;
}

/* Floats of a packed vector of n elements: whole steps. */
static inline int64_t packed_floats(int64_t n, lh_meet kind)
{
    return (n + step_elements(kind) - 1) / step_elements(kind) * step_floats(kind);
}

/* The step of a row that begins at element `at`; n elements are left. */
VEC_FN vf step_load(const void *row, int64_t at, int64_t n, const lh_meet kind)
{
    if (kind == MEET_CODES) return vf_load_codes_first((const int8_t *)row + at, n);
    return kind == MEET_F32 ? vf_load_first((const float *)row + at, n) : vf_load_words((const uint16_t *)row + at, n);
}

/* sum + the products of a step and x. */
VEC_FN vf step_add(vf row, const float *x, vf sum, const lh_meet kind)
{
    if (in_order(kind)) return vf_fma(row, vf_load(x), sum);
    if (kind == MEET_PAIRS) return vf_dot(row, vf_load(x), sum);
    return vf_fma(vf_odd(row), vf_load(x + VL), vf_fma(vf_even(row), vf_load(x), sum));
}

/* Packs n elements of bf16 (MEET_SPLIT, MEET_PAIRS) or f32 (MEET_F32) from src as the vector, padded with zeros to a
 * whole step. */
static inline void pack_vector(float *dst, const void *src, int64_t n, lh_meet kind)
{
    for (int64_t i = 0; i < n; i += step_elements(kind), dst += step_floats(kind)) {
        vf x = step_load(src, i, n - i, kind);
        vf_store(dst, kind == MEET_SPLIT ? vf_even(x) : x);
        if (kind == MEET_SPLIT) vf_store(dst + VL, vf_odd(x));
    }
}

/* Packs factor * n floats as the vector for rows of f32, codes or split bf16. */
static inline void pack_floats_for(float *dst, const float *src, int64_t n, float factor, lh_meet kind)
{
    for (int64_t i = 0; i < packed_floats(n, kind); i++) {
        int64_t inside = i % (2 * VL), from = i - inside + inside % VL * 2 + inside / VL;
        if (in_order(kind)) from = i;
        dst[i] = from < n ? factor * src[from] : 0.0f;
    }
}

/* The inverse: n elements. */
static inline void unpack_floats(float *dst, const float *src, int64_t n, lh_meet kind)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t inside = i % (2 * VL), from = i - inside + inside % 2 * VL + inside / 2;
        dst[i] = src[in_order(kind) ? i : from];
    }
}

#endif
