/* packed.h - the layout in host memory of matrices of few bits, which pack_weights writes and the products of `ref` and
 * `cpu` read.
 *
 * 16 rows are a group; rows after the last have zero scales. A group is one stream of whole cache lines, in the order
 * of its columns. Blocks of 32 columns follow each other in units, and a unit begins with the scales of its blocks:
 * a separate array of scales is a second stream, which halves the bandwidth (2 Zen 4 cores: 0.5 of the read bandwidth
 * instead of 0.95 to 1.0).
 *
 *   formats of 32 values: a unit is 2 blocks; per block the f16 d of 16 rows, then the f16 m, which is added
 *   formats of 256 values: a unit is the 8 blocks of a source block; the f16 d of 16 rows, then the f16 m, which is
 *       subtracted; per block the int8 scales of 16 rows (of 2 x 16 rows if 16 values share a scale), then the minima
 *
 * m and minima only in formats with minima. The scales of a unit are padded to whole lines. A shard may cut a source
 * block, and the number of blocks may be odd: a first or last unit has the blocks that are there.
 *
 * Codes of a block: a word is 4 columns of a row, a line is one word of 16 rows. 8 bits: 8 lines. Fewer: 4 lines with
 * words 0 to 3 in the low nibbles and words 4 to 7 in the high ones; then, of 5 bits, a line with the fifth bit of
 * word j in bit j of its bytes; of 6 bits, two lines of 4 words, with the upper bits of word j in bits 2 (j % 4). */
#ifndef LH_KERNELS_PACKED_H
#define LH_KERNELS_PACKED_H

#include "base/both.h"
#include "base/minmax.h"
#include "kernels/matrix.h"
#include "kernels/ops_model.h"

enum { LH_PACKED_ROWS = 16, LH_PACKED_COLS = 32, LH_LINE = 64 };

/* Bytes of the layout, from the numbers of a format. */
typedef struct lh_packing {
    int bits, zero, groups; /* of a code; groups of a block that share a scale */
    int is_super, minima;   /* true for formats of 256 values; true if there are minima */
    int unit;               /* blocks */
    int head, scales;       /* bytes of a unit before the scales of its blocks; bytes of a block's scales */
    int codes;              /* bytes of a block */
} lh_packing;

static LH_BOTH inline lh_packing lh_packing_of(int bits, int zero, int64_t values, int group)
{
    const int is_super = values > LH_PACKED_COLS, minima = zero == 0, groups = LH_PACKED_COLS / group;
    const int halves = LH_PACKED_ROWS * 2 * (1 + minima); /* bytes of d and m */
    const lh_packing p = {bits,
                          zero,
                          groups,
                          is_super,
                          minima,
                          is_super ? (int)(values / LH_PACKED_COLS) : 2,
                          is_super ? halves : 0,
                          is_super ? LH_PACKED_ROWS * (groups + minima) : halves,
                          LH_PACKED_ROWS * LH_PACKED_COLS / 8 * bits};
    return p;
}

static LH_BOTH inline lh_packing lh_packing_of_format(const lh_format *f)
{
    return lh_packing_of(f->bits, f->zero, f->values, f->group);
}

/* Bytes of a unit's scales; of a unit. */
static LH_BOTH inline int64_t lh_unit_header(const lh_packing *p, int64_t blocks)
{
    return (p->head + blocks * p->scales + LH_LINE - 1) / LH_LINE * LH_LINE;
}

static LH_BOTH inline int64_t lh_unit_bytes(const lh_packing *p, int64_t blocks)
{
    return lh_unit_header(p, blocks) + blocks * p->codes;
}

/* The unit of a group that contains a block: its first byte, its first block, its blocks. */
typedef struct lh_unit {
    int64_t at, first, blocks;
} lh_unit;

static LH_BOTH inline lh_unit lh_unit_from(const lh_packing *p, int64_t at, int64_t first, int64_t lead, int64_t total)
{
    const int64_t room = p->unit - (lead + first) % p->unit;
    const lh_unit u = {at, first, lh_min_i64(room, total - first)};
    return u;
}

/* `lead`: blocks of the first source block before column 0; total: blocks of the matrix. */
static LH_BOTH inline lh_unit lh_unit_of(const lh_packing *p, int64_t block, int64_t lead, int64_t total)
{
    const int64_t index = (lead + block) / p->unit;
    const lh_unit first = lh_unit_from(p, 0, 0, lead, total);
    if (index == 0) return first;
    return lh_unit_from(p, lh_unit_bytes(p, first.blocks) + (index - 1) * lh_unit_bytes(p, p->unit),
                        index * p->unit - lead, lead, total);
}

static LH_BOTH inline lh_unit lh_unit_after(const lh_packing *p, lh_unit u, int64_t lead, int64_t total)
{
    return lh_unit_from(p, u.at + lh_unit_bytes(p, u.blocks), u.first + u.blocks, lead, total);
}

/* Bytes of a group of 16 rows. */
static LH_BOTH inline int64_t lh_group_bytes(const lh_packing *p, int64_t lead, int64_t total)
{
    if (total == 0) return 0;
    const lh_unit last = lh_unit_of(p, total - 1, lead, total);
    return last.at + lh_unit_bytes(p, last.blocks);
}

/* One block of a group of rows. head: of its unit. */
typedef struct lh_packed_block {
    const uint8_t *head, *scales, *codes;
} lh_packed_block;

static LH_BOTH inline lh_packed_block lh_block_of_unit(const lh_packing *p, const uint8_t *group, lh_unit u,
                                                       int64_t block)
{
    const uint8_t *head = group + u.at;
    const int64_t n = block - u.first;
    const lh_packed_block b = {head, head + p->head + n * p->scales, head + lh_unit_header(p, u.blocks) + n * p->codes};
    return b;
}

/* The block of packed weights that contains row `row` and column `col`. */
static LH_BOTH inline lh_packed_block lh_packed_block_at(const lh_packing *p, const lh_matrix *w, int64_t row,
                                                         int64_t col)
{
    const int64_t lead = w->phase / LH_PACKED_COLS, total = w->ld / LH_PACKED_COLS, block = col / LH_PACKED_COLS;
    const uint8_t *group = (const uint8_t *)w->data + row / LH_PACKED_ROWS * lh_group_bytes(p, lead, total);
    return lh_block_of_unit(p, group, lh_unit_of(p, block, lead, total), block);
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

/* The code of row r of a group in column c of a block, minus its zero. */
static LH_BOTH inline int lh_packed_code(const lh_packing *p, lh_packed_block b, int64_t r, int64_t c)
{
    const int64_t word = c / 4, byte = r * 4 + c % 4;
    if (p->bits == 8) return b.codes[word * LH_LINE + byte] - p->zero;
    int code = (b.codes[word % 4 * LH_LINE + byte] >> (word / 4 * 4)) & 15;
    if (p->bits > 4) {
        const int64_t upper = p->bits - 4, words = 8 / upper;
        const uint8_t *line = b.codes + (4 + word / words) * LH_LINE;
        code |= ((line[byte] >> (word % words * upper)) & ((1 << upper) - 1)) << 4;
    }
    return code - p->zero;
}

/* The value of row `row` and column `col`. */
static LH_BOTH inline float lh_packed_value(const lh_matrix *w, int64_t row, int64_t col)
{
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
