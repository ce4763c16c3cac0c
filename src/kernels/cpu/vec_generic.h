/* vec_generic.h - vectors of 4 floats by the compiler's vector extensions: SSE2 on a plain x86-64, NEON on arm64; see
 * vec.h. */
#ifndef LH_KERNELS_CPU_VEC_GENERIC_H
#define LH_KERNELS_CPU_VEC_GENERIC_H

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { VL = 4, PAIRS = 0 };
typedef float vf __attribute__((vector_size(16))); /* float32x4_t of arm_neon.h */
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;

VEC_FN vf vf_load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

VEC_FN void vf_store(float *p, vf x)
{
    memcpy(p, &x, sizeof x);
}

VEC_FN vf vf_set1(float x)
{
    return (vf){x, x, x, x};
}

VEC_FN vi vi_set1(int32_t x)
{
    return (vi){x, x, x, x};
}

VEC_FN vi vi_load(const int32_t *p)
{
    vi x;
    memcpy(&x, p, sizeof x);
    return x;
}

VEC_FN vi vi_iota(void)
{
    return (vi){0, 1, 2, 3};
}

VEC_FN vm vi_gt(vi a, vi b)
{
    return a > b;
}

VEC_FN vm vm_and(vm a, vm b)
{
    return a & b;
}

VEC_FN vm vm_not(vm m)
{
    return ~m;
}

VEC_FN vm vm_first(int64_t n)
{
    return vi_gt(vi_set1(n >= VL ? VL : (int32_t)n), vi_iota());
}

VEC_FN int vm_any(vm m)
{
    return (m[0] | m[1] | m[2] | m[3]) != 0;
}

VEC_FN vf vf_where(vm m, vf a, vf b)
{
    return (vf)(((vi)a & m) | ((vi)b & ~m));
}

VEC_FN vm vf_lt(vf a, vf b)
{
    return a < b;
}

VEC_FN vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

#if defined(__aarch64__)
VEC_FN vf vf_fused(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
#else
VEC_FN vf vf_fused(vf a, vf b, vf c)
{
    return (vf){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}
#endif

VEC_FN vf vf_max(vf a, vf b)
{
    return vf_where(a > b, a, b);
}

VEC_FN vf vf_min(vf a, vf b)
{
    return vf_where(a < b, a, b);
}

VEC_FN vf vf_abs(vf x)
{
    return (vf)((vi)x & vi_set1(INT32_MAX));
}

VEC_FN vf vf_with_sign(vf x, vf sign)
{
    return (vf)((vi)x | ((vi)sign & vi_set1(INT32_MIN)));
}

VEC_FN vf vf_add_exponent(vf x, vf whole)
{
    return (vf)((vi)x + ((vi)whole << 23));
}

VEC_FN vf vf_round(vf x)
{
    const vf whole = vf_set1(12582912.0f);
    return (x + whole) - whole;
}

VEC_FN vf vf_scale2(vf x, vf n)
{
    return vf_add_exponent(x, n + vf_set1(12582912.0f));
}

VEC_FN float vf_sum(vf x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

VEC_FN float vf_top(vf x)
{
    return fmaxf(fmaxf(x[0], x[2]), fmaxf(x[1], x[3]));
}

/* ---- the first elements of a vector, bf16 numbers and pairs of them, transposes ---- */

VEC_FN vf vf_load_first(const float *p, int64_t n)
{
    vf x = {0};
    if (n >= VL) return vf_load(p);
    for (int64_t i = 0; i < n; i++) x[i] = p[i];
    return x;
}

VEC_FN void vf_store_first(float *p, vf x, int64_t n)
{
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) p[i] = x[i];
}

VEC_FN vf vf_load_bf16(const uint16_t *p)
{
    return (vf){lh_bf16_to_f32(p[0]), lh_bf16_to_f32(p[1]), lh_bf16_to_f32(p[2]), lh_bf16_to_f32(p[3])};
}

VEC_FN vf vf_load_bf16_first(const uint16_t *p, int64_t n)
{
    vf x = {0};
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) x[i] = lh_bf16_to_f32(p[i]);
    return x;
}

VEC_FN vf vf_load_codes(const int8_t *p)
{
    return (vf){p[0], p[1], p[2], p[3]};
}

VEC_FN void vf_store_bf16_first(uint16_t *p, vf x, int64_t n)
{
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) p[i] = lh_f32_to_bf16(x[i]);
}

VEC_FN void vf_store_bf16(uint16_t *p, vf x)
{
    vf_store_bf16_first(p, x, VL);
}

VEC_FN vf vf_even(vf words)
{
    return (vf)((vi)words << 16);
}

VEC_FN vf vf_odd(vf words)
{
    return (vf)((vi)words & vi_set1((int32_t)0xffff0000));
}

VEC_FN vf vf_pair(vf even, vf odd)
{
    return (vf)(((vi)even >> 16 & vi_set1(0xffff)) | (vi)odd);
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
    uint16_t half[VL];
    memcpy(half, p, sizeof half);
    return (vf){lh_f16_to_f32(half[0]), lh_f16_to_f32(half[1]), lh_f16_to_f32(half[2]), lh_f16_to_f32(half[3])};
}

VEC_FN vf vf_load_i8(const uint8_t *p)
{
    return (vf){(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
}

VEC_FN vf vf_load_e4m3(const uint8_t *p)
{
    return (vf){lh_e4m3_to_f32(p[0]), lh_e4m3_to_f32(p[1]), lh_e4m3_to_f32(p[2]), lh_e4m3_to_f32(p[3])} / 256.0f;
}

typedef struct vw {
    uint16_t words[16], bits;
} vw;

VEC_FN vw vw_table(const uint16_t words[16], int16_t bits)
{
    vw table = {.bits = (uint16_t)bits};
    memcpy(table.words, words, sizeof table.words);
    return table;
}

VEC_FN vf vw_load(const uint8_t *codes, vw table)
{
    uint16_t words[2 * VL];
    vf x;
    for (int i = 0; i < 2 * VL; i++) {
        const int index = (codes[i] & 7) + (codes[i] & 0x78 ? 8 : 0), exponent = (int8_t)codes[i] * 16;
        words[i] = (uint16_t)(table.words[index] + (exponent & table.bits));
    }
    memcpy(&x, words, sizeof x);
    return x;
}

VEC_FN vi vi_round(vf x)
{
    return (vi){(int32_t)lrintf(x[0]), (int32_t)lrintf(x[1]), (int32_t)lrintf(x[2]), (int32_t)lrintf(x[3])};
}

VEC_FN vf vf_from_ints(vi x)
{
    return __builtin_convertvector(x, vf);
}

VEC_FN vi vi_look_up(const uint8_t table[16], vi index)
{
    uint8_t bytes[sizeof index];
    memcpy(bytes, &index, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = table[bytes[i]];
    memcpy(&index, bytes, sizeof bytes);
    return index;
}

enum { DOT_BYTES = 0 };
#if defined(__SSE2__)
VEC_FN vi vi_dot(vi a, const int32_t *word, vi c)
{
    return c + (vi)_mm_madd_epi16((__m128i)a, (__m128i)vi_set1(*word));
}
#else
VEC_FN vi vi_dot(vi a, const int32_t *word, vi c)
{
    return c + (a << 16 >> 16) * (*word << 16 >> 16) + (a >> 16) * (*word >> 16);
}
#endif

VEC_FN void vf_transpose(vf x[VL])
{
    for (int i = 0; i < VL; i++) {
        for (int j = 0; j < i; j++) {
            float upper = x[j][i];
            x[j][i] = x[i][j];
            x[i][j] = upper;
        }
    }
}

VEC_FN vf vf_sums(const vf x[VL])
{
    return (vf){vf_sum(x[0]), vf_sum(x[1]), vf_sum(x[2]), vf_sum(x[3])};
}

#endif
