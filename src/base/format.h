/* format.h - the number formats of matrices, with the names and numbers of GGUF files: plain numbers (f32, f16, bf16),
 * or blocks of few bits with scales; f8_e4m3 is no format of GGUF files. One table for importers, checkpoints and
 * kernels. */
#ifndef LH_BASE_FORMAT_H
#define LH_BASE_FORMAT_H

#include <stdint.h>

#include "base/both.h"
#include "base/dtype.h"

/* Integers of one block: value i of a row is d * scale[g] * (code[i] - zero) - m * minimum[g] with g = i / group, d and
 * m f16 numbers, products and difference rounded to f32 once each. A format without minima has m = 0. With a table
 * code[i] stands for table[code[i]]. */
enum { LH_BLOCK_MAX = 256, LH_BLOCK_GROUPS_MAX = 16 };
typedef struct lh_block_codes {
    uint16_t d, m; /* f16 */
    int16_t scale[LH_BLOCK_GROUPS_MAX], minimum[LH_BLOCK_GROUPS_MAX];
    uint8_t code[LH_BLOCK_MAX];
} lh_block_codes;

/* The codes that the bits of iq4_nl and iq4_xs stand for, with a zero of 128. */
#define LH_IQ4_CODES 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241
extern const uint8_t lh_iq4_codes[16];

typedef struct lh_format {
    const char *name;      /* as in GGUF files, such as "q4_K" */
    int number;            /* in GGUF files; -1: GGUF files have no such format */
    int64_t values, bytes; /* of a block; a plain number is a block of 1 value */
    /* Blocks of few bits: values that share a scale, bits of a code, and its zero. bits 0: plain numbers, or a format
     * that is known by name only. */
    int group, bits, zero;
    const uint8_t *table;  /* [16] the codes that 4 bits stand for; NULL: the bits are the codes */
    int halves, halves_at; /* number of f16 scales of a block, adjacent, and the byte where they begin */
    void (*unpack)(lh_block_codes *out, const uint8_t *block); /* NULL: plain, or known by name only */
    /* The block with an f16 scale d and these codes; NULL unless all codes of a block share one scale without a
     * minimum. */
    void (*join)(uint8_t *block, uint16_t d, const unsigned *code);
    void (*pack)(uint8_t *block, const float *values); /* NULL: no numbers are quantised to it */
    void (*widen)(float *dst, const uint8_t *block);   /* of blocks that are only read as numbers; NULL: others */
    /* True for a block that checkpoints can hold; NULL: those with finite f16 scales. */
    int (*is_usable)(const uint8_t *block);
    int by_rows; /* true: products widen rows of blocks, which lie in memory as in files, to plain numbers */
    int is_plain;
    lh_dtype plain; /* type of plain numbers */
} lh_format;

/* The code that the bits of a block are, or stand for. */
static LH_BOTH inline int lh_format_code(const uint8_t *table, int bits)
{
    return table ? table[bits] : bits;
}

/* By number in GGUF files; by name; of a plain type. NULL if there is none. */
const lh_format *lh_format_numbered(int number);
const lh_format *lh_format_named(const char *name);
const lh_format *lh_format_of(lh_dtype type);

/* False for a format that is known by name only. */
int lh_format_is_readable(const lh_format *format);

/* True for blocks with codes of at least 4 bits: checkpoints store these bytes of their sources. */
int lh_format_is_kept(const lh_format *format);

/* Bytes of `values` numbers, a whole number of blocks. */
int64_t lh_format_bytes(const lh_format *format, int64_t values);

/* dst [blocks, values] f32 from src [blocks, bytes] of a readable format, bit for bit as ggml's dequantize_row_* and
 * gguf-py's dequantize. */
void lh_format_to_f32(const lh_format *format, float *dst, const uint8_t *src, int64_t blocks);

/* dst [cols] f32 from the values [col, col + cols) of the blocks that begin at src. */
void lh_format_part_to_f32(const lh_format *format, float *dst, const uint8_t *src, int64_t col, int64_t cols);

/* An f8_e4m3 block: a scale, f32, and 128 floats of 8 bits (E4M3). A value is the product in f32. */
enum { LH_F8_VALUES = 128, LH_F8_BYTES = 4 + LH_F8_VALUES };
void lh_f8_e4m3_join(uint8_t *block, float scale, const uint8_t *codes);

/* True for 0 and for sizes within 2^-100 to 2^50, which make all products normal numbers below 2^64, or 0. */
static LH_BOTH inline int lh_f8_e4m3_has_scale(float scale)
{
    const float size = scale < 0 ? -scale : scale;
    return size == 0 || (size >= 0x1p-100f && size <= 0x1p50f);
}

/* dst [blocks, bytes] from src [blocks, values] f32 that are finite, for a format with `pack`: bit for bit as ggml's
 * quantize_row_*_ref; f8_e4m3 by a scale of max|x| / 448. */
void lh_format_from_f32(const lh_format *format, uint8_t *dst, const float *src, int64_t blocks);

#endif
