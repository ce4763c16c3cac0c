/* ggml_types.c - dequantisation of GGUF's block formats (layouts: ggml-common.h). Products are not fused (the build
 * compiles this file with -ffp-contract=off), so that the values are ggml's bits on every machine. */
#include "import/ggml_types.h"

#include <string.h>

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return lh_f16_to_f32(h);
}

static void f32_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    memcpy(dst, src, (size_t)blocks * sizeof *dst);
}

static void f16_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++) dst[b] = half_at(src + 2 * b);
}

static void bf16_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++) {
        uint16_t h;
        memcpy(&h, src + 2 * b, sizeof h);
        dst[b] = lh_bf16_to_f32(h);
    }
}

/* half d; 16 bytes of nibbles: the low ones are values 0 to 15, the high ones 16 to 31. */
static void q4_0_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 32, src += 18) {
        float d = half_at(src);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)(((src[2 + i % 16] >> (i / 16 * 4)) & 15) - 8);
    }
}

/* half d, m; nibbles. */
static void q4_1_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 32, src += 20) {
        float d = half_at(src), m = half_at(src + 2);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)((src[4 + i % 16] >> (i / 16 * 4)) & 15) + m;
    }
}

/* The 5-bit value i of a block: fifth bits in the 32 bits at `high`, nibbles at `low`. */
static int five(const uint8_t *high, const uint8_t *low, int i)
{
    return ((low[i % 16] >> (i / 16 * 4)) & 15) | (((high[i / 8] >> (i % 8)) & 1) << 4);
}

/* half d; 32 fifth bits; nibbles. */
static void q5_0_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 32, src += 22) {
        float d = half_at(src);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)(five(src + 2, src + 6, i) - 16);
    }
}

/* half d, m; 32 fifth bits; nibbles. */
static void q5_1_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 32, src += 24) {
        float d = half_at(src), m = half_at(src + 2);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)five(src + 4, src + 8, i) + m;
    }
}

/* half d; 32 signed bytes. */
static void q8_0_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 32, src += 34) {
        float d = half_at(src);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)(int8_t)src[2 + i];
    }
}

/* 16 bytes: scale and minimum of 16 values each, as nibbles; 64 bytes of 2-bit values, 32 bytes holding 128 of
 * them; half d, dmin. */
static void q2_k_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 256, src += 84) {
        float d = half_at(src + 80), dmin = half_at(src + 82);
        for (int i = 0; i < 256; i++) {
            uint8_t scale = src[i / 16];
            int q = (src[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
            dst[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
        }
    }
}

/* 32 bytes of third bits (0 means minus four); 64 bytes of 2-bit values; 12 bytes of sixteen 6-bit scales; half d. */
static void q3_k_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 256, src += 110) {
        const uint8_t *packed = src + 96;
        float d = half_at(src + 108), scales[16];
        for (int s = 0; s < 16; s++) {
            int low = (packed[s % 8] >> (s / 8 * 4)) & 15, high = (packed[8 + s % 4] >> (s / 4 * 2)) & 3;
            scales[s] = d * (float)((low | (high << 4)) - 32);
        }
        for (int i = 0; i < 256; i++) {
            int q = (src[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
            int third = (src[i % 32] >> (i / 32)) & 1;
            dst[i] = scales[i / 16] * (float)(third ? q : q - 4);
        }
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes. */
static void six_bit_pairs(const uint8_t *packed, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
        *min = (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
    }
}

/* half d, dmin; 12 bytes of scales and minima of 32 values each; 128 bytes of nibbles, 32 bytes holding 64. */
static void q4_k_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 256, src += 144) {
        float d = half_at(src), dmin = half_at(src + 2);
        for (int j = 0; j < 8; j++) {
            int scale, min;
            six_bit_pairs(src + 4, j, &scale, &min);
            const uint8_t *qs = src + 16 + j / 2 * 32;
            float dl = d * (float)scale, ml = dmin * (float)min;
            for (int k = 0; k < 32; k++) dst[32 * j + k] = dl * (float)((qs[k] >> (j % 2 * 4)) & 15) - ml;
        }
    }
}

/* As Q4_K, with 32 bytes of fifth bits before the nibbles. */
static void q5_k_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 256, src += 176) {
        float d = half_at(src), dmin = half_at(src + 2);
        for (int j = 0; j < 8; j++) {
            int scale, min;
            six_bit_pairs(src + 4, j, &scale, &min);
            const uint8_t *qh = src + 16, *qs = src + 48 + j / 2 * 32;
            float dl = d * (float)scale, ml = dmin * (float)min;
            for (int k = 0; k < 32; k++) {
                int q = ((qs[k] >> (j % 2 * 4)) & 15) | (((qh[k] >> j) & 1) << 4);
                dst[32 * j + k] = dl * (float)q - ml;
            }
        }
    }
}

/* 128 bytes of nibbles, 64 bytes holding 128; 64 bytes of upper bit pairs, 32 bytes holding 128; sixteen signed
 * scales; half d. */
static void q6_k_to_f32(float *dst, const uint8_t *src, int64_t blocks)
{
    for (; blocks > 0; blocks--, dst += 256, src += 210) {
        float d = half_at(src + 208);
        for (int i = 0; i < 256; i++) {
            int low = (src[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
            int high = (src[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
            float dl = d * (float)(int8_t)src[192 + i / 16];
            dst[i] = dl * (float)((low | (high << 4)) - 32);
        }
    }
}

static const lh_ggml_type types[] = {
    {"F32", 0, 0, LH_F32, 1, 4, f32_to_f32},
    {"F16", 1, 0, LH_F16, 1, 2, f16_to_f32},
    {"BF16", 30, 0, LH_BF16, 1, 2, bf16_to_f32},
    {"Q4_0", 2, 1, LH_F32, 32, 18, q4_0_to_f32},
    {"Q4_1", 3, 1, LH_F32, 32, 20, q4_1_to_f32},
    {"Q5_0", 6, 1, LH_F32, 32, 22, q5_0_to_f32},
    {"Q5_1", 7, 1, LH_F32, 32, 24, q5_1_to_f32},
    {"Q8_0", 8, 1, LH_F32, 32, 34, q8_0_to_f32},
    {"Q2_K", 10, 1, LH_F32, 256, 84, q2_k_to_f32},
    {"Q3_K", 11, 1, LH_F32, 256, 110, q3_k_to_f32},
    {"Q4_K", 12, 1, LH_F32, 256, 144, q4_k_to_f32},
    {"Q5_K", 13, 1, LH_F32, 256, 176, q5_k_to_f32},
    {"Q6_K", 14, 1, LH_F32, 256, 210, q6_k_to_f32},
    /* Known by name, for messages. */
    {"Q8_1", 9, 1, LH_F32, 32, 40, NULL},
    {"Q8_K", 15, 1, LH_F32, 256, 292, NULL},
    {"IQ2_XXS", 16, 1, LH_F32, 256, 66, NULL},
    {"IQ2_XS", 17, 1, LH_F32, 256, 74, NULL},
    {"IQ3_XXS", 18, 1, LH_F32, 256, 98, NULL},
    {"IQ1_S", 19, 1, LH_F32, 256, 50, NULL},
    {"IQ4_NL", 20, 1, LH_F32, 32, 18, NULL},
    {"IQ3_S", 21, 1, LH_F32, 256, 110, NULL},
    {"IQ2_S", 22, 1, LH_F32, 256, 82, NULL},
    {"IQ4_XS", 23, 1, LH_F32, 256, 136, NULL},
    {"I8", 24, 1, LH_F32, 1, 1, NULL},
    {"I16", 25, 1, LH_F32, 1, 2, NULL},
    {"I32", 26, 1, LH_F32, 1, 4, NULL},
    {"I64", 27, 1, LH_F32, 1, 8, NULL},
    {"F64", 28, 1, LH_F32, 1, 8, NULL},
    {"IQ1_M", 29, 1, LH_F32, 256, 56, NULL},
    {"TQ1_0", 34, 1, LH_F32, 256, 54, NULL},
    {"TQ2_0", 35, 1, LH_F32, 256, 66, NULL},
    {"MXFP4", 39, 1, LH_F32, 32, 17, NULL},
    {"NVFP4", 40, 1, LH_F32, 64, 36, NULL},
    {"Q1_0", 41, 1, LH_F32, 128, 18, NULL},
    {"Q2_0", 42, 1, LH_F32, 64, 18, NULL},
};

const lh_ggml_type *lh_ggml_type_find(int number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}
