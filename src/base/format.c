/* format.c - the integers of GGUF's blocks (layouts: ggml-common.h), and their values. Products are not fused (the
 * build compiles this file with -ffp-contract=off), so that the values are ggml's bits on every machine. */
#include "base/format.h"

#include <math.h>
#include <string.h>

#include "base/format_impl.h"

static uint16_t u16_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

/* Scale 1 and, where there is a minimum, its factor. */
static void one_group(lh_block_codes *out, int minimum)
{
    out->scale[0] = 1;
    out->minimum[0] = (int16_t)minimum;
}

/* 16 bytes of nibbles: the low ones are values 0 to 15, the high ones 16 to 31. */
static int nibble(const uint8_t *low, int i)
{
    return (low[i % 16] >> (i / 16 * 4)) & 15;
}

/* The 5-bit value i of a block: fifth bits in the 32 bits at `high`, nibbles at `low`. */
static int five(const uint8_t *high, const uint8_t *low, int i)
{
    return nibble(low, i) | (((high[i / 8] >> (i % 8)) & 1) << 4);
}

/* half d; nibbles. */
static void q4_0(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = 0;
    one_group(out, 0);
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)nibble(src + 2, i);
}

/* half d, m, which is added; nibbles. */
static void q4_1(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = u16_at(src + 2);
    one_group(out, -1);
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)nibble(src + 4, i);
}

/* half d; 32 fifth bits; nibbles. */
static void q5_0(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = 0;
    one_group(out, 0);
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)five(src + 2, src + 6, i);
}

/* half d, m, which is added; 32 fifth bits; nibbles. */
static void q5_1(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = u16_at(src + 2);
    one_group(out, -1);
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)five(src + 4, src + 8, i);
}

/* half d; 32 signed bytes. */
static void q8_0(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = 0;
    one_group(out, 0);
    for (int i = 0; i < 32; i++) out->code[i] = src[2 + i] ^ 0x80;
}

/* 16 bytes: scale and minimum of 16 values each, as nibbles; 64 bytes of 2-bit values, 32 bytes holding 128 of
 * them; half d, dmin. */
static void q2_k(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src + 80);
    out->m = u16_at(src + 82);
    for (int g = 0; g < 16; g++) {
        out->scale[g] = src[g] & 15;
        out->minimum[g] = src[g] >> 4;
    }
    for (int i = 0; i < 256; i++) out->code[i] = (src[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

/* 32 bytes of third bits (0 means minus four); 64 bytes of 2-bit values; 12 bytes of sixteen 6-bit scales; half d. */
static void q3_k(lh_block_codes *out, const uint8_t *src)
{
    const uint8_t *packed = src + 96;
    *out = (lh_block_codes){.d = u16_at(src + 108)};
    for (int g = 0; g < 16; g++) {
        int low = (packed[g % 8] >> (g / 8 * 4)) & 15, high = (packed[8 + g % 4] >> (g / 4 * 2)) & 3;
        out->scale[g] = (int16_t)((low | (high << 4)) - 32);
    }
    for (int i = 0; i < 256; i++) {
        int low = (src[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        out->code[i] = (uint8_t)(low | (((src[i % 32] >> (i / 32)) & 1) << 2));
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes. */
static void six_bit_pairs(lh_block_codes *out, const uint8_t *packed)
{
    for (int g = 0; g < 4; g++) {
        out->scale[g] = packed[g] & 63;
        out->minimum[g] = packed[g + 4] & 63;
        out->scale[g + 4] = (int16_t)((packed[g + 8] & 15) | ((packed[g] >> 6) << 4));
        out->minimum[g + 4] = (int16_t)((packed[g + 8] >> 4) | ((packed[g + 4] >> 6) << 4));
    }
}

/* half d, dmin; 12 bytes of scales and minima of 32 values each; 128 bytes of nibbles, 32 bytes holding 64. */
static void q4_k(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = u16_at(src + 2);
    six_bit_pairs(out, src + 4);
    for (int i = 0; i < 256; i++) out->code[i] = (src[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

/* As q4_K, with 32 bytes of fifth bits before the nibbles. */
static void q5_k(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = u16_at(src + 2);
    six_bit_pairs(out, src + 4);
    for (int i = 0; i < 256; i++) {
        int low = (src[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
        out->code[i] = (uint8_t)(low | (((src[16 + i % 32] >> (i / 32)) & 1) << 4));
    }
}

/* 128 bytes of nibbles, 64 bytes holding 128; 64 bytes of upper bit pairs, 32 bytes holding 128; sixteen signed
 * scales; half d. */
static void q6_k(lh_block_codes *out, const uint8_t *src)
{
    *out = (lh_block_codes){.d = u16_at(src + 208)};
    for (int g = 0; g < 16; g++) out->scale[g] = (int8_t)src[192 + g];
    for (int i = 0; i < 256; i++) {
        int low = (src[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
        int high = (src[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        out->code[i] = (uint8_t)(low | (high << 4));
    }
}

/* ---- codes of 4 bits that are indices into a table ---- */

const uint8_t lh_iq4_codes[16] = {LH_IQ4_CODES};

/* half d; nibbles. */
static void iq4_nl(lh_block_codes *out, const uint8_t *src)
{
    out->d = u16_at(src);
    out->m = 0;
    one_group(out, 0);
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)nibble(src + 2, i);
}

/* half d; upper bit pairs, then lower nibbles, of eight 6-bit scales; nibbles, 16 bytes holding 32. */
static void iq4_xs(lh_block_codes *out, const uint8_t *src)
{
    const int high = u16_at(src + 2);
    *out = (lh_block_codes){.d = u16_at(src)};
    for (int g = 0; g < 8; g++) {
        const int scale = ((src[4 + g / 2] >> (g % 2 * 4)) & 15) | ((high >> (2 * g)) & 3) << 4;
        out->scale[g] = (int16_t)(scale - 32);
    }
    for (int i = 0; i < 256; i++) out->code[i] = (uint8_t)nibble(src + 8 + i / 32 * 16, i % 32);
}

/* ---- blocks that are only read as numbers ---- */

/* An exponent of two (E8M0), here of half the scale; nibbles. */
static void mxfp4(float *dst, const uint8_t *src)
{
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; /* twice E2M1 */
    const float scale = ldexpf(1, src[0] - 128);
    for (int i = 0; i < 32; i++) dst[i] = scale * (float)values[nibble(src + 1, i)];
}

/* ---- blocks of floats ---- */

static float f8_scale(const uint8_t *src)
{
    float scale;
    memcpy(&scale, src, sizeof scale);
    return scale;
}

static void f8_e4m3(float *dst, const uint8_t *src)
{
    const float scale = f8_scale(src);
    const uint8_t *codes = src + sizeof scale;
    for (int i = 0; i < LH_F8_VALUES; i++) dst[i] = lh_e4m3_is_nan(codes[i]) ? NAN : scale * lh_e4m3_to_f32(codes[i]);
}

static int f8_is_usable(const uint8_t *src)
{
    int nans = 0;
    for (int i = (int)sizeof(float); i < LH_F8_BYTES; i++) nans |= lh_e4m3_is_nan(src[i]);
    return !nans && lh_f8_e4m3_has_scale(f8_scale(src));
}

void lh_f8_e4m3_join(uint8_t *block, float scale, const uint8_t *codes)
{
    memcpy(block, &scale, sizeof scale);
    memcpy(block + sizeof scale, codes, LH_F8_VALUES);
}

/* Rows of the table: plain numbers; blocks of values with their bytes, values that share a scale, bits and zero of a
 * code, number and place of the f16 scales; blocks of codes from a table, which begin with their f16 scale; blocks that
 * are only read as numbers; blocks of floats; a format that is known by name, for messages. */
#define PLAIN(label, id, type, size)                                                          \
    {                                                                                         \
        .name = label, .number = id, .values = 1, .bytes = size, .is_plain = 1, .plain = type \
    }
#define BLOCKS(label, id, in_block, size, share, width, middle, f16s, f16s_at, reader, joiner, writer)                 \
    {                                                                                                                  \
        .name = label, .number = id, .values = in_block, .bytes = size, .group = share, .bits = width, .zero = middle, \
        .halves = f16s, .halves_at = f16s_at, .unpack = reader, .join = joiner, .pack = writer                         \
    }
#define TABLE_BLOCKS(label, id, in_block, size, codes, reader)                                               \
    {                                                                                                        \
        .name = label, .number = id, .values = in_block, .bytes = size, .group = 32, .bits = 4, .zero = 128, \
        .table = codes, .halves = 1, .unpack = reader                                                        \
    }
#define NUMBERS(label, id, in_block, size, reader)                                      \
    {                                                                                   \
        .name = label, .number = id, .values = in_block, .bytes = size, .widen = reader \
    }
#define FLOATS(label, in_block, size, reader, checker, writer)                                         \
    {                                                                                                  \
        .name = label, .number = -1, .values = in_block, .bytes = size, .widen = reader, .by_rows = 1, \
        .is_usable = checker, .pack = writer                                                           \
    }
#define NAMED(label, id, in_block, size)                               \
    {                                                                  \
        .name = label, .number = id, .values = in_block, .bytes = size \
    }

static const lh_format formats[] = {
    PLAIN("f32", 0, LH_F32, 4),
    PLAIN("f16", 1, LH_F16, 2),
    PLAIN("bf16", 30, LH_BF16, 2),
    BLOCKS("q4_0", 2, 32, 18, 32, 4, 8, 1, 0, q4_0, lh_join_q4_0, lh_pack_q4_0),
    BLOCKS("q4_1", 3, 32, 20, 32, 4, 0, 2, 0, q4_1, NULL, lh_pack_q4_1),
    BLOCKS("q5_0", 6, 32, 22, 32, 5, 16, 1, 0, q5_0, lh_join_q5_0, lh_pack_q5_0),
    BLOCKS("q5_1", 7, 32, 24, 32, 5, 0, 2, 0, q5_1, NULL, lh_pack_q5_1),
    BLOCKS("q8_0", 8, 32, 34, 32, 8, 128, 1, 0, q8_0, lh_join_q8_0, lh_pack_q8_0),
    BLOCKS("q2_K", 10, 256, 84, 16, 2, 0, 2, 80, q2_k, NULL, NULL),
    BLOCKS("q3_K", 11, 256, 110, 16, 3, 4, 1, 108, q3_k, NULL, NULL),
    BLOCKS("q4_K", 12, 256, 144, 32, 4, 0, 2, 0, q4_k, NULL, lh_pack_q4_k),
    BLOCKS("q5_K", 13, 256, 176, 32, 5, 0, 2, 0, q5_k, NULL, lh_pack_q5_k),
    BLOCKS("q6_K", 14, 256, 210, 16, 6, 32, 1, 208, q6_k, NULL, lh_pack_q6_k),
    NAMED("q8_1", 9, 32, 40),
    NAMED("q8_K", 15, 256, 292),
    NAMED("iq2_xxs", 16, 256, 66),
    NAMED("iq2_xs", 17, 256, 74),
    NAMED("iq3_xxs", 18, 256, 98),
    NAMED("iq1_s", 19, 256, 50),
    TABLE_BLOCKS("iq4_nl", 20, 32, 18, lh_iq4_codes, iq4_nl),
    NAMED("iq3_s", 21, 256, 110),
    NAMED("iq2_s", 22, 256, 82),
    TABLE_BLOCKS("iq4_xs", 23, 256, 136, lh_iq4_codes, iq4_xs),
    NAMED("i8", 24, 1, 1),
    NAMED("i16", 25, 1, 2),
    NAMED("i32", 26, 1, 4),
    NAMED("i64", 27, 1, 8),
    NAMED("f64", 28, 1, 8),
    NAMED("iq1_m", 29, 256, 56),
    NAMED("tq1_0", 34, 256, 54),
    NAMED("tq2_0", 35, 256, 66),
    NUMBERS("mxfp4", 39, 32, 17, mxfp4),
    FLOATS("f8_e4m3", LH_F8_VALUES, LH_F8_BYTES, f8_e4m3, f8_is_usable, lh_pack_f8_e4m3),
    NAMED("nvfp4", 40, 64, 36),
    NAMED("q1_0", 41, 128, 18),
    NAMED("q2_0", 42, 64, 18),
};
enum { FORMATS = sizeof formats / sizeof *formats };

const lh_format *lh_format_numbered(int number)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].number == number && number >= 0) return &formats[i];
    return NULL;
}

const lh_format *lh_format_named(const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

const lh_format *lh_format_of(lh_dtype type)
{
    return &formats[type]; /* the first rows are in the order of lh_dtype */
}

int lh_format_is_readable(const lh_format *format)
{
    return format->unpack || format->widen || format->is_plain;
}

int lh_format_is_kept(const lh_format *format)
{
    return (format->unpack && format->bits >= 4) || format->by_rows;
}

int64_t lh_format_bytes(const lh_format *format, int64_t values)
{
    return values / format->values * format->bytes;
}

static void block_to_f32(const lh_format *format, float *dst, const lh_block_codes *b)
{
    const float d = lh_f16_to_f32(b->d), m = lh_f16_to_f32(b->m);
    for (int64_t g = 0; g < format->values / format->group; g++) {
        const float scale = d * (float)b->scale[g], minimum = m * (float)b->minimum[g];
        for (int64_t i = g * format->group; i < (g + 1) * format->group; i++)
            dst[i] = scale * (float)(lh_format_code(format->table, b->code[i]) - format->zero) - minimum;
    }
}

void lh_format_to_f32(const lh_format *format, float *dst, const uint8_t *src, int64_t blocks)
{
    if (format->is_plain) {
        lh_dtype_convert(dst, LH_F32, src, format->plain, blocks);
        return;
    }
    for (int64_t i = 0; i < blocks; i++, dst += format->values, src += format->bytes) {
        lh_block_codes block;
        if (format->widen) {
            format->widen(dst, src);
        } else {
            format->unpack(&block, src);
            block_to_f32(format, dst, &block);
        }
    }
}

void lh_format_part_to_f32(const lh_format *format, float *dst, const uint8_t *src, int64_t col, int64_t cols)
{
    const int64_t values = format->values;
    while (cols > 0) {
        const int64_t block = col / values, first = col % values, n = cols < values - first ? cols : values - first;
        float one[LH_BLOCK_MAX];
        lh_format_to_f32(format, one, src + block * format->bytes, 1);
        memcpy(dst, one + first, (size_t)n * sizeof *dst);
        dst += n;
        col += n;
        cols -= n;
    }
}

void lh_format_from_f32(const lh_format *format, uint8_t *dst, const float *src, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++) format->pack(dst + i * format->bytes, src + i * format->values);
}
