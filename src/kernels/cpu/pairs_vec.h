/* pairs_vec.h - attention in pairs of bf16 by vectors (see tile.h). */
#ifndef LH_KERNELS_CPU_PAIRS_VEC_H
#define LH_KERNELS_CPU_PAIRS_VEC_H

enum { BLOCK_IN_PAIRS = PAIRS, PAIR_ROWS = TILE_ROWS };

TILE_FAMILY(tile_packed_pairs, 1, TILE_ROWS, TILE_PAIRS)
TILE_FAMILY(tile_weights_pairs, KEYS, 1, TILE_PAIRS)

static inline int64_t pair_words(int64_t n)
{
    return (n + 1) / 2;
}

static inline void pack_row_pairs(float *dst, const lh_rows *rows, int64_t block)
{
    pack_block(dst, rows, block, 1);
}

static inline void pairs_logits(const lh_tile *t, int64_t rows)
{
    tile_strip(t, tile_packed_pairs, rows, 1);
}

static inline void pairs_sums(const lh_tile *t, int64_t rows)
{
    tile_strip(t, tile_weights_pairs, rows, KEYS);
}

static inline void pairs_begin(void)
{
}

static inline void pairs_end(void)
{
}

#endif
