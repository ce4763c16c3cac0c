/* block_products.h - the two ways to multiply a block of rows with a tile of keys or values: in floats, and in pairs of
 * bf16. */
#ifndef LH_KERNELS_CPU_BLOCK_PRODUCTS_H
#define LH_KERNELS_CPU_BLOCK_PRODUCTS_H

#include "kernels/cpu/softmax.h"
#include "kernels/cpu/tile.h"

/* A way to multiply: in floats, or in words of two bf16. */
typedef struct lh_block_way {
    int64_t rows;                                                      /* rows of a block, at most VL */
    int64_t (*places)(int64_t n);                                      /* floats or words that n elements take */
    void (*pack_rows)(float *dst, const lh_rows *rows, int64_t block); /* [places, rows] in an internal order */
    void (*pack_keys)(float *dst, const lh_columns *keys);             /* panels [places, TILE_COLS] */
    void (*pack_values)(float *dst, const lh_columns *values);         /* panels [places of KEYS, TILE_COLS] */
    void (*logits)(const lh_tile *t, int64_t rows);                    /* queries times keys */
    float (*weigh)(float *s, int64_t seen, int64_t n, float base);     /* logits to weights, softmax.h's row_weigh */
    void (*sums)(const lh_tile *t, int64_t rows);                      /* weights times values */
    void (*begin)(void), (*end)(void);                                 /* around an item */
} lh_block_way;

/* ---- in floats ---- */

static int64_t float_places(int64_t n)
{
    return n;
}

static void pack_float_values(float *dst, const lh_columns *values)
{
    for (int64_t i = 0; i < values->depth; i += VL) {
        float *panel = dst + i / TILE_COLS * TILE_COLS * KEYS + i % TILE_COLS;
        for (int64_t j = 0; j < values->count; j++)
            vf_store(panel + j * TILE_COLS, vf_load_any_first(values->src, values->type,
                                                              values->first + j * values->ld + i, values->depth - i));
        if (i % TILE_COLS == 0 && i + VL >= values->depth) { /* zeros in the second half of the last panel */
            for (int64_t j = 0; j < values->count; j++) vf_store(panel + j * TILE_COLS + VL, vf_zero());
        }
    }
}

static void float_logits(const lh_tile *t, int64_t rows)
{
    tile_strip(t, tile_packed, rows, 1);
}

static float float_weigh(float *s, int64_t seen, int64_t n, float base)
{
    return row_weigh(s, seen, n, base, 0);
}

static void float_sums(const lh_tile *t, int64_t rows)
{
    tile_strip(t, tile_weights, rows, KEYS);
}

static void nothing(void)
{
}

static const lh_block_way in_floats = {.rows = TILE_ROWS,
                                       .places = float_places,
                                       .pack_rows = pack_rows,
                                       .pack_keys = pack_columns,
                                       .pack_values = pack_float_values,
                                       .logits = float_logits,
                                       .weigh = float_weigh,
                                       .sums = float_sums,
                                       .begin = nothing,
                                       .end = nothing};

/* ---- in pairs of bf16 ---- */

static void pack_pair_keys(float *dst, const lh_columns *keys)
{
    pack_column_words(dst, keys, pair_words(keys->depth));
}

/* VL elements of value j from i on, zero after the end. */
VEC_FN vf value_or_zero(const lh_columns *values, int64_t j, int64_t i)
{
    if (j >= values->count || i >= values->depth) return vf_zero();
    return vf_load_bf16_first((const uint16_t *)values->src + values->first + j * values->ld + i, values->depth - i);
}

static void pack_pair_values(float *dst, const lh_columns *values)
{
    for (int64_t i = 0; i < round_up(values->depth, TILE_COLS); i += VL) {
        float *panel = dst + i / TILE_COLS * TILE_COLS * KEYS + i % TILE_COLS;
        for (int64_t word = 0; word < pair_words(values->count); word++)
            vf_store(panel + word * TILE_COLS,
                     vf_pair(value_or_zero(values, 2 * word, i), value_or_zero(values, 2 * word + 1, i)));
    }
}

/* The weights are zero up to the last word of n weights. */
static float pair_weigh(float *s, int64_t seen, int64_t n, float base)
{
    return row_weigh(s, seen, 2 * pair_words(n), base, 1);
}

static const lh_block_way in_pairs = {.rows = PAIR_ROWS,
                                      .places = pair_words,
                                      .pack_rows = pack_row_pairs,
                                      .pack_keys = pack_pair_keys,
                                      .pack_values = pack_pair_values,
                                      .logits = pairs_logits,
                                      .weigh = pair_weigh,
                                      .sums = pairs_sums,
                                      .begin = pairs_begin,
                                      .end = pairs_end};

static inline const lh_block_way *way_of(const lh_ragged *kv)
{
    return BLOCK_IN_PAIRS && kv->type == LH_BF16 ? &in_pairs : &in_floats;
}

#endif
