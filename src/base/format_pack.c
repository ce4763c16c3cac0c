/* format_pack.c - quantisation: the blocks of GGUF's formats from f32 values, by the definitions of ggml-quants.c
 * (quantize_row_*_ref). The bits are ggml's: sums are f32 in the order of the values, and products are not fused (the
 * build compiles this file with -ffp-contract=off). */
#include "base/format_impl.h"

#include <math.h>
#include <string.h>

#include "base/format.h"

/* ---- blocks of 32 values ---- */

enum { SMALL = 32 }; /* values of a block of the formats that numbers are quantised to */

static void put_u16(uint8_t *p, uint16_t h)
{
    memcpy(p, &h, sizeof h);
}

/* v cut to an integer from 0 to max; 0 for NaN (scales near 2^-128 have no inverse). */
static unsigned code_of(float v, unsigned max)
{
    return v >= (float)max ? max : v > 0 ? (unsigned)v : 0;
}

/* 16 bytes of nibbles. */
static void put_nibbles(uint8_t *p, const unsigned *code)
{
    for (int i = 0; i < SMALL / 2; i++) p[i] = (uint8_t)((code[i] & 15) | (code[i + SMALL / 2] & 15) << 4);
}

/* 32 fifth bits, then the nibbles. */
static void put_fives(uint8_t *p, const unsigned *code)
{
    memset(p, 0, 4);
    for (int i = 0; i < SMALL; i++) p[i / 8] = (uint8_t)(p[i / 8] | (code[i] >> 4) << i % 8);
    put_nibbles(p + 4, code);
}

/* Sets the codes of the values, and returns their scale: the first of the values with the largest absolute value gets
 * code 0. */
static float signed_codes(unsigned *code, const float *values, int zero)
{
    float largest = 0;
    for (int i = 0; i < SMALL; i++)
        if (fabsf(values[i]) > fabsf(largest)) largest = values[i];
    const float d = largest / (float)-zero, inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < SMALL; i++)
        code[i] = code_of(values[i] * inverse + ((float)zero + 0.5f), 2 * (unsigned)zero - 1);
    return d;
}

/* Codes 0 to max over the range of the values; the scale and the minimum. */
static float range_codes(unsigned *code, const float *values, unsigned max, float *minimum)
{
    float low = values[0], high = values[0];
    for (int i = 1; i < SMALL; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    const float d = (high - low) / (float)max, inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < SMALL; i++) code[i] = code_of((values[i] - low) * inverse + 0.5f, max);
    *minimum = low;
    return d;
}

void lh_join_q4_0(uint8_t *block, uint16_t d, const unsigned *code)
{
    put_u16(block, d);
    put_nibbles(block + 2, code);
}

void lh_join_q5_0(uint8_t *block, uint16_t d, const unsigned *code)
{
    put_u16(block, d);
    put_fives(block + 2, code);
}

void lh_join_q8_0(uint8_t *block, uint16_t d, const unsigned *code)
{
    put_u16(block, d);
    for (int i = 0; i < SMALL; i++) block[2 + i] = (uint8_t)(code[i] ^ 0x80);
}

void lh_pack_q4_0(uint8_t *block, const float *values)
{
    unsigned code[SMALL];
    lh_join_q4_0(block, lh_f32_to_f16(signed_codes(code, values, 8)), code);
}

void lh_pack_q5_0(uint8_t *block, const float *values)
{
    unsigned code[SMALL];
    lh_join_q5_0(block, lh_f32_to_f16(signed_codes(code, values, 16)), code);
}

void lh_pack_q4_1(uint8_t *block, const float *values)
{
    unsigned code[SMALL];
    float minimum;
    put_u16(block, lh_f32_to_f16(range_codes(code, values, 15, &minimum)));
    put_u16(block + 2, lh_f32_to_f16(minimum));
    put_nibbles(block + 4, code);
}

void lh_pack_q5_1(uint8_t *block, const float *values)
{
    unsigned code[SMALL];
    float minimum;
    put_u16(block, lh_f32_to_f16(range_codes(code, values, 31, &minimum)));
    put_u16(block + 2, lh_f32_to_f16(minimum));
    put_fives(block + 4, code);
}

void lh_pack_q8_0(uint8_t *block, const float *values)
{
    float largest = 0;
    for (int i = 0; i < SMALL; i++) largest = fmaxf(largest, fabsf(values[i]));
    const float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
    put_u16(block, lh_f32_to_f16(d));
    for (int i = 0; i < SMALL; i++) {
        const float v = roundf(values[i] * inverse);
        block[2 + i] = (uint8_t)(int8_t)(v >= 127 ? 127 : v <= -127 ? -127 : v == v ? v : 0);
    }
}

/* Codes by a scale that gives the largest absolute value the largest code; zeros if the scale would be tiny. */
void lh_pack_f8_e4m3(uint8_t *block, const float *values)
{
    uint8_t codes[LH_F8_VALUES] = {0};
    float largest = 0;
    for (int i = 0; i < LH_F8_VALUES; i++) largest = fmaxf(largest, fabsf(values[i]));
    const float scale = largest / 448, has_size = scale != 0 && scale >= 0x1p-100f;
    for (int i = 0; i < LH_F8_VALUES && has_size; i++) codes[i] = lh_f32_to_e4m3(values[i] / scale);
    lh_f8_e4m3_join(block, has_size ? scale : 0, codes);
}

/* ---- blocks of 256 values: a group's scale and minimum are found by a search, and then get few bits, too ---- */

enum { LARGE = 256, AFFINE = 32, AFFINES = LARGE / AFFINE, SYMMETRIC = 16, SYMMETRICS = LARGE / SYMMETRIC };
static const float NEGLIGIBLE = 1e-15f; /* groups below it are zero */

/* v rounded to the nearest integer, ties to even, if |v| < 2^22. Other values, NaN included, give what ggml's
 * nearest_int gives. */
static int nearest(float v)
{
    int32_t bits;
    v += 0x1.8p23f;
    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x7fffff) - 0x400000;
}

static int clamp(int v, int min, int max)
{
    return v < min ? min : v > max ? max : v;
}

/* Codes of the values by the rounded scales of the block. A group with a scale of 0 keeps the codes of its search. */
static void code_block(lh_block_codes *b, const float *values, int group, int zero, int max)
{
    const float d = lh_f16_to_f32(b->d), m = lh_f16_to_f32(b->m);
    for (int i = 0; i < LARGE; i++) {
        const float scale = d * (float)b->scale[i / group], minimum = m * (float)b->minimum[i / group];
        if (scale != 0) b->code[i] = (uint8_t)(clamp(nearest((values[i] + minimum) / scale), -zero, max - zero) + zero);
    }
}

/* A group of values. A value becomes scale * code + low with low <= 0; the sum of its weighted squared errors is
 * minimised. */
typedef struct affine {
    const float *values;
    float weight[AFFINE], weights, weighted; /* sums of the weights, and of the weighted values */
    float scale, low;                        /* the best ones so far */
} affine;

/* The inverse scales that are tried are (max + first + step / 10) / range, with steps from 0 to `steps`. */
typedef struct affine_search {
    int max; /* the largest code */
    float first;
    int steps;
} affine_search;

static void affine_codes(uint8_t *code, const affine *a, float inverse, int max)
{
    for (int i = 0; i < AFFINE; i++) code[i] = (uint8_t)clamp(nearest(inverse * (a->values[i] - a->low)), 0, max);
}

static float affine_error(const uint8_t *code, const affine *a, float scale, float low)
{
    float error = 0;
    for (int i = 0; i < AFFINE; i++) {
        const float difference = scale * (float)code[i] + low - a->values[i];
        error += a->weight[i] * (difference * difference);
    }
    return error;
}

/* The scale and the minimum of least error for these codes. False if the codes do not determine them. */
static int affine_fit(const uint8_t *code, const affine *a, float *scale, float *low)
{
    float l = 0, l2 = 0, lx = 0; /* weighted sums of codes, of their squares, and of codes times values */
    for (int i = 0; i < AFFINE; i++) {
        const float c = (float)code[i], weighted = a->weight[i] * c;
        l += weighted;
        l2 += weighted * c;
        lx += weighted * a->values[i];
    }
    const float determinant = a->weights * l2 - l * l;
    if (!(determinant > 0)) return 0;
    *scale = (a->weights * lx - a->weighted * l) / determinant;
    *low = (l2 * a->weighted - l * lx) / determinant;
    if (*low > 0) {
        *low = 0;
        *scale = lx / l2;
    }
    return 1;
}

/* make_qkx2_quants: codes, scale and minimum of a->values, weighted by the mean and their own absolute value. */
static void affine_group(uint8_t *code, affine *a, const affine_search *search)
{
    float squares = 0, high = a->values[0];
    for (int i = 0; i < AFFINE; i++) squares += a->values[i] * a->values[i];
    const float mean = sqrtf(squares / AFFINE);
    a->scale = a->weights = a->weighted = 0;
    a->low = a->values[0];
    for (int i = 0; i < AFFINE; i++) {
        const float v = a->values[i], weight = a->weight[i] = mean + fabsf(v);
        a->low = v < a->low ? v : a->low;
        high = v > high ? v : high;
        a->weights += weight;
        a->weighted += weight * v;
    }
    a->low = a->low > 0 ? 0 : a->low;
    memset(code, 0, AFFINE);
    if (high == a->low) return;
    const float inverse = (float)search->max / (high - a->low);
    affine_codes(code, a, inverse, search->max);
    a->scale = 1 / inverse;
    float least = affine_error(code, a, a->scale, a->low);
    for (int step = 0; step <= search->steps; step++) {
        uint8_t other[AFFINE];
        float scale, low;
        const float wanted = search->first + 0.1f * (float)step + (float)search->max;
        affine_codes(other, a, wanted / (high - a->low), search->max);
        if (!affine_fit(other, a, &scale, &low)) continue;
        const float error = affine_error(other, a, scale, low);
        if (!(error < least)) continue;
        memcpy(code, other, AFFINE);
        least = error;
        a->scale = scale;
        a->low = low;
    }
}

static int16_t six_bits(float v)
{
    const uint8_t low = (uint8_t)nearest(v);
    return low < 63 ? low : 63;
}

/* Codes, scales and minima of 6 bits, and their f16 factors: of q4_K and q5_K. */
static void affine_block(lh_block_codes *b, const float *values, const affine_search *search)
{
    affine groups[AFFINES];
    float scale = 0, minimum = 0; /* the largest ones */
    for (int g = 0; g < AFFINES; g++) {
        groups[g].values = values + g * AFFINE;
        affine_group(b->code + g * AFFINE, &groups[g], search);
        scale = groups[g].scale > scale ? groups[g].scale : scale;
        minimum = -groups[g].low > minimum ? -groups[g].low : minimum;
    }
    const float scale_inverse = scale > 0 ? 63 / scale : 0, minimum_inverse = minimum > 0 ? 63 / minimum : 0;
    for (int g = 0; g < AFFINES; g++) {
        b->scale[g] = six_bits(scale_inverse * groups[g].scale);
        b->minimum[g] = six_bits(minimum_inverse * -groups[g].low);
    }
    b->d = lh_f32_to_f16(scale / 63);
    b->m = lh_f32_to_f16(minimum / 63);
    code_block(b, values, AFFINE, 0, search->max);
}

/* half d, dmin; eight 6-bit scales and eight 6-bit minima in 12 bytes. */
static void put_scales(uint8_t *block, const lh_block_codes *b)
{
    uint8_t *packed = block + 4;
    put_u16(block, b->d);
    put_u16(block + 2, b->m);
    for (int g = 0; g < 4; g++) {
        packed[g] = (uint8_t)(b->scale[g] | b->scale[g + 4] >> 4 << 6);
        packed[g + 4] = (uint8_t)(b->minimum[g] | b->minimum[g + 4] >> 4 << 6);
        packed[g + 8] = (uint8_t)((b->scale[g + 4] & 15) | (b->minimum[g + 4] & 15) << 4);
    }
}

/* 128 bytes of nibbles, 32 bytes holding 64. */
static void put_large_nibbles(uint8_t *p, const uint8_t *code)
{
    for (int i = 0; i < LARGE / 2; i++) {
        const uint8_t *low = code + i / 32 * 64 + i % 32;
        p[i] = (uint8_t)((low[0] & 15) | (low[32] & 15) << 4);
    }
}

void lh_pack_q4_k(uint8_t *block, const float *values)
{
    lh_block_codes b;
    affine_block(&b, values, &(affine_search){15, -1, 20});
    put_scales(block, &b);
    put_large_nibbles(block + 16, b.code);
}

void lh_pack_q5_k(uint8_t *block, const float *values)
{
    lh_block_codes b;
    affine_block(&b, values, &(affine_search){31, -0.5f, 15});
    put_scales(block, &b);
    memset(block + 16, 0, 32);
    for (int i = 0; i < LARGE; i++) block[16 + i % 32] |= (uint8_t)(b.code[i] >> 4 << i / 32);
    put_large_nibbles(block + 48, b.code);
}

/* Weighted sums of codes times values, and of squared codes; the weights are the squared values. */
static void symmetric_sums(const int8_t *code, const float *values, float *lx, float *l2)
{
    *lx = *l2 = 0;
    for (int i = 0; i < SYMMETRIC; i++) {
        const float c = code[i], weight = values[i] * values[i];
        *lx += weight * values[i] * c;
        *l2 += weight * c * c;
    }
}

static void symmetric_codes(int8_t *code, const float *values, float inverse)
{
    for (int i = 0; i < SYMMETRIC; i++) code[i] = (int8_t)clamp(nearest(inverse * values[i]), -32, 31);
}

/* make_qx_quants: codes of a group, their zero included, and its scale. The inverse scales that are tried give the
 * value with the largest absolute value a code near -32. */
static float symmetric_group(uint8_t *code, const float *values)
{
    int8_t signed_code[SYMMETRIC];
    float largest = 0, lx, l2;
    for (int i = 0; i < SYMMETRIC; i++)
        if (fabsf(values[i]) > fabsf(largest)) largest = values[i];
    memset(code, 0, SYMMETRIC);
    if (fabsf(largest) < NEGLIGIBLE) return 0;
    symmetric_codes(signed_code, values, -32 / largest);
    symmetric_sums(signed_code, values, &lx, &l2);
    /* Sums overflow above 2^57: a scale that is too large for f16 remains, so that the block is refused. */
    if (isinf(l2)) return largest / -32;
    float scale = l2 > 0 ? lx / l2 : 0, best = scale * lx;
    for (int i = 0; i < SYMMETRIC; i++) code[i] = (uint8_t)(signed_code[i] + 32);
    for (int step = -9; step <= 9; step++) {
        if (step == 0) continue;
        symmetric_codes(signed_code, values, -(32 + 0.1f * (float)step) / largest);
        symmetric_sums(signed_code, values, &lx, &l2);
        if (!(l2 > 0 && lx * lx > best * l2)) continue;
        for (int i = 0; i < SYMMETRIC; i++) code[i] = (uint8_t)(signed_code[i] + 32);
        scale = lx / l2;
        best = scale * lx;
    }
    return scale;
}

/* The group with the largest absolute scale gets -128. */
void lh_pack_q6_k(uint8_t *block, const float *values)
{
    lh_block_codes b = {0};
    float scale[SYMMETRICS], largest = 0;
    for (int g = 0; g < SYMMETRICS; g++) {
        scale[g] = symmetric_group(b.code + g * SYMMETRIC, values + g * SYMMETRIC);
        if (fabsf(scale[g]) > fabsf(largest)) largest = scale[g];
    }
    memset(block, 0, 210);
    if (fabsf(largest) < NEGLIGIBLE) return;
    const float inverse = -128 / largest;
    b.d = lh_f32_to_f16(1 / inverse);
    for (int g = 0; g < SYMMETRICS; g++) {
        const int v = nearest(inverse * scale[g]);
        b.scale[g] = (int8_t)(v < 127 ? v : 127);
    }
    code_block(&b, values, SYMMETRIC, 32, 63);
    for (int i = 0; i < LARGE; i++) {
        block[i / 128 * 64 + i % 64] |= (uint8_t)((b.code[i] & 15) << i % 128 / 64 * 4);
        block[128 + i / 128 * 32 + i % 32] |= (uint8_t)(b.code[i] >> 4 << i % 128 / 32 * 2);
    }
    for (int g = 0; g < SYMMETRICS; g++) block[192 + g] = (uint8_t)b.scale[g];
    put_u16(block + 208, b.d);
}
