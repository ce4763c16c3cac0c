/* packed.h - the layout in host memory of matrices of few bits, which pack_weights writes and the products of `ref` and
 * `cpu` read.
 *
 * 16 rows are a group; rows after the last have zero scales. A group is one stream of cache lines, read from its first
 * byte to its last: a separate array of scales is a second stream, and lines out of their order stop the processor's
 * prefetching (2 Zen 5 cores: 0.3 to 0.6 of the read bandwidth instead of 0.8 at 75 GB/s; 2 Zen 4 cores at 35 GB/s: 0.5
 * instead of 0.95 to 1.0). Columns are in blocks of 32, two blocks are a pair:
 *
 *   source block   formats of 256 values only: a line with the f16 d of 16 rows and the f16 m, which is subtracted
 *   pair           formats of 256 values: a line with the int8 scales of 16 rows (of 2 x 16 rows if 16 values share a
 *                  scale), then their minima, of the first block, and the same of the second
 *                  formats of 32 values: the f16 d of 16 rows, then the f16 m, which is added, of the first block, and
 *                  the same of the second
 *   block          its codes
 *
 * m and minima only in formats with minima. A shard may cut a source block, and a pair may lack a block: headers have
 * their whole size nevertheless.
 *
 * Codes of a block: a word is 4 columns of a row, a line is one word of 16 rows. 8 bits: 8 lines, one a word. Fewer,
 * for the words that share a scale (8 or 4): a line with their bits above the fourth, of 1 bit or 2, word 0 in the
 * lowest bits; then lines with the first half of the words in the low nibbles and the second half in the high ones.
 * Codes of a table are stored as their 4 bits.
 *
 * Formats by rows (base/format.h) have no such groups: a row is its source blocks, whole ones, as files have them. */
#ifndef LH_KERNELS_PACKED_H
#define LH_KERNELS_PACKED_H

#include "base/both.h"
#include "base/minmax.h"
#include "kernels/matrix.h"
#include "kernels/ops_model.h"

enum { LH_PACKED_ROWS = 16, LH_PACKED_COLS = 32, LH_LINE = 64 };

/* Bytes of the layout, from the numbers of a format. */
typedef struct lh_packing {
    int bits, zero, groups;    /* of a code; groups of a block that share a scale */
    const uint8_t *table;      /* of lh_format */
    int is_super, minima;      /* true for formats of 256 values; true if there are minima */
    int source, head;          /* blocks of a source block; bytes before its first pair */
    int header, scales, codes; /* bytes before the blocks of a pair; of a block's scales in it; of a block's codes */
} lh_packing;

static LH_BOTH inline lh_packing lh_packing_of(int bits, int zero, int64_t values, int group, const uint8_t *table)
{
    const int is_super = values > LH_PACKED_COLS, minima = zero == 0, groups = LH_PACKED_COLS / group;
    const int scales = LH_PACKED_ROWS * (is_super ? groups + minima : 2 + 2 * minima);
    const lh_packing p = {bits,
                          zero,
                          groups,
                          table,
                          is_super,
                          minima,
                          (int)(values / LH_PACKED_COLS),
                          is_super ? LH_LINE : 0,
                          2 * scales,
                          scales,
                          LH_PACKED_ROWS * LH_PACKED_COLS / 8 * bits};
    return p;
}

static LH_BOTH inline lh_packing lh_packing_of_format(const lh_format *f)
{
    return lh_packing_of(f->bits, f->zero, f->values, f->group, f->table);
}

/* First byte of the codes of block b in a group. lead: blocks of the first source block before column 0. */
static LH_BOTH inline int64_t lh_codes_at(const lh_packing *p, int64_t lead, int64_t b)
{
    const int64_t sources = (lead + b) / p->source + 1, pairs = (lead + b) / 2 - lead / 2 + 1;
    return sources * p->head + pairs * p->header + b * p->codes;
}

/* Bytes of a group of 16 rows and `total` blocks. */
static LH_BOTH inline int64_t lh_group_bytes(const lh_packing *p, int64_t lead, int64_t total)
{
    return total == 0 ? 0 : lh_codes_at(p, lead, total - 1) + p->codes;
}

/* One block of a group of rows. head: of its source block. */
typedef struct lh_packed_block {
    const uint8_t *head, *scales, *codes;
} lh_packed_block;

static LH_BOTH inline lh_packed_block lh_block_at(const lh_packing *p, const uint8_t *group, int64_t lead, int64_t b)
{
    const int64_t n = lead + b, source = lh_max_i64(n / p->source * p->source - lead, 0);
    const int64_t pair = lh_max_i64(n / 2 * 2 - lead, 0);
    const lh_packed_block block = {group + lh_codes_at(p, lead, source) - p->header - p->head,
                                   group + lh_codes_at(p, lead, pair) - p->header + n % 2 * p->scales,
                                   group + lh_codes_at(p, lead, b)};
    return block;
}

/* The block after b, which is number n after the first block of a source block. */
static LH_BOTH inline lh_packed_block lh_block_after(const lh_packing *p, lh_packed_block b, int64_t n)
{
    b.scales += p->scales;
    b.codes += p->codes;
    if (p->is_super && (n + 1) % p->source == 0) {
        b.head = b.codes;
        b.codes += p->head;
    }
    if ((n + 1) % 2 == 0) {
        b.scales = b.codes;
        b.codes += p->header;
    }
    return b;
}

/* The block of packed weights that contains row `row` and column `col`. */
static LH_BOTH inline lh_packed_block lh_packed_block_at(const lh_packing *p, const lh_matrix *w, int64_t row,
                                                         int64_t col)
{
    const int64_t lead = w->phase / LH_PACKED_COLS, total = w->ld / LH_PACKED_COLS;
    const uint8_t *group = (const uint8_t *)w->data + row / LH_PACKED_ROWS * lh_group_bytes(p, lead, total);
    return lh_block_at(p, group, lead, col / LH_PACKED_COLS);
}

static LH_BOTH inline float lh_half_at(const uint8_t *halves, int64_t i)
{
    uint16_t half;
    memcpy(&half, halves + 2 * i, sizeof half);
    return lh_f16_to_f32(half);
}

/* Numbers of row r of a group: the scale of group g of a block's columns, and the number that is added to its values,
 * -0 if the format has no minima. */
static LH_BOTH inline float lh_packed_scale(const lh_packing *p, lh_packed_block b, int64_t r, int64_t g)
{
    if (!p->is_super) return lh_half_at(b.scales, r);
    return lh_half_at(b.head, r) * (float)(int8_t)b.scales[g * LH_PACKED_ROWS + r];
}

static LH_BOTH inline float lh_packed_offset(const lh_packing *p, lh_packed_block b, int64_t r)
{
    if (!p->minima) return -0.0f;
    if (!p->is_super) return lh_half_at(b.scales, LH_PACKED_ROWS + r);
    return -lh_half_at(b.head, LH_PACKED_ROWS + r) * (float)(int8_t)b.scales[p->groups * LH_PACKED_ROWS + r];
}

/* The lines and first bits of word j in codes of less than 8 bits. */
typedef struct lh_word_place {
    int uppers, upper, nibbles, nibble;
} lh_word_place;

static LH_BOTH inline lh_word_place lh_word_at(const lh_packing *p, int j)
{
    enum { WORDS = LH_PACKED_COLS / 4 };
    const int words = WORDS / p->groups, first = j / words * (p->codes / LH_LINE / p->groups), w = j % words;
    const lh_word_place at = {first, w * (p->bits - 4), first + (p->bits > 4) + w % (words / 2), w / (words / 2) * 4};
    return at;
}

/* The code of row r of a group in column c of a block, minus its zero. */
static LH_BOTH inline int lh_packed_code(const lh_packing *p, lh_packed_block b, int64_t r, int64_t c)
{
    const int64_t word = c / 4, byte = r * 4 + c % 4;
    if (p->bits == 8) return b.codes[word * LH_LINE + byte] - p->zero;
    const int upper = p->bits - 4;
    const lh_word_place at = lh_word_at(p, (int)word);
    int code = (b.codes[at.nibbles * LH_LINE + byte] >> at.nibble) & 15;
    if (upper > 0) code |= ((b.codes[at.uppers * LH_LINE + byte] >> at.upper) & ((1 << upper) - 1)) << 4;
    return lh_format_code(p->table, code) - p->zero;
}

/* Bytes of a row of f8_e4m3 with `skip` columns before column 0, and `cols` from there on. */
static LH_BOTH inline int64_t lh_f8_row_bytes(int64_t skip, int64_t cols)
{
    return (skip + cols + LH_F8_VALUES - 1) / LH_F8_VALUES * LH_F8_BYTES;
}

/* A row of an f8_e4m3 matrix from column `col` on: the number of values before it in its block. */
typedef struct lh_f8_row {
    const uint8_t *block;
    int64_t skip;
} lh_f8_row;

static LH_BOTH inline lh_f8_row lh_f8_row_at(const lh_matrix *w, int64_t row, int64_t col)
{
    const uint8_t *blocks = (const uint8_t *)w->data + row * lh_f8_row_bytes(w->phase, w->ld);
    const int64_t at = w->phase + col;
    const lh_f8_row from = {blocks + at / LH_F8_VALUES * LH_F8_BYTES, at % LH_F8_VALUES};
    return from;
}

static LH_BOTH inline float lh_f8_value(const lh_matrix *w, int64_t row, int64_t col)
{
    const lh_f8_row at = lh_f8_row_at(w, row, col);
    float scale;
    memcpy(&scale, at.block, sizeof scale);
    return scale * lh_e4m3_to_f32(at.block[sizeof scale + at.skip]);
}

/* The value of row `row` and column `col`. */
static LH_BOTH inline float lh_packed_value(const lh_matrix *w, int64_t row, int64_t col)
{
    if (w->format->by_rows) return lh_f8_value(w, row, col);
    const lh_packing p = lh_packing_of_format(w->format);
    const lh_packed_block b = lh_packed_block_at(&p, w, row, col);
    const int64_t r = row % LH_PACKED_ROWS, c = col % LH_PACKED_COLS;
    const float scale = lh_packed_scale(&p, b, r, c * p.groups / LH_PACKED_COLS);
    return scale * (float)lh_packed_code(&p, b, r, c) + lh_packed_offset(&p, b, r);
}

/* Bytes of packed weights. skip: columns of the first source block that are not packed; skip and cols are multiples of
 * 32. */
int64_t lh_packed_bytes(const lh_format *format, int64_t rows, int64_t skip, int64_t cols);

/* Packs source blocks (pack_weights on host memory), with all threads. */
void lh_pack_weights(const lh_pack_weights_args *args);

#endif
