/* pairs_amx.h - attention in pairs of bf16 by matrix tiles (pairs.h says what is promised). Rows of queries lie as they
 * are, in words; depths are whole tiles of 16 words; a block is always done with all its 16 rows. */
#ifndef LH_KERNELS_CPU_PAIRS_AMX_H
#define LH_KERNELS_CPU_PAIRS_AMX_H

#include "kernels/cpu/amx.h"

enum { BLOCK_IN_PAIRS = 1, PAIR_ROWS = 16, AMX_WORDS = 16 };

static inline int64_t pair_words(int64_t n)
{
    return round_up((n + 1) / 2, AMX_WORDS);
}

static inline void pack_row_pairs(float *dst, const lh_rows *rows, int64_t block)
{
    int64_t words = pair_words(rows->depth);
    for (int64_t r = 0; r < PAIR_ROWS; r++) {
        int64_t at = row_at(rows, block * PAIR_ROWS + r);
        for (int64_t i = 0; i < words; i += VL) vf_store(dst + r * words + i, row_words(rows, at, 2 * i));
    }
}

/* 16 rows, a_stride words apart, by the two or four times 16 columns from `col` on. Four products of which none waits
 * for another hide the time that one takes. */
static inline void amx_columns(const lh_tile *t, int64_t col, int64_t a_stride, int four)
{
    const int64_t c_bytes = t->c_ld * 4, b_bytes = TILE_COLS * 4;
    const float *b = t->b + col / TILE_COLS * t->b_next, *next = b + t->b_next;
    float *c = t->c + col;
    if (t->from_zero) {
        amx_zero(0);
        amx_zero(1);
        amx_zero(2);
        amx_zero(3);
    } else {
        amx_load(0, c, c_bytes);
        amx_load(1, c + 16, c_bytes);
        if (four) amx_load(2, c + 32, c_bytes);
        if (four) amx_load(3, c + 48, c_bytes);
    }
    for (int64_t i = 0; i < t->depth; i += AMX_WORDS) {
        amx_load(4, t->a + i, a_stride * 4);
        amx_load(5, b + i * TILE_COLS, b_bytes);
        amx_dot(0, 4, 5);
        amx_load(6, b + i * TILE_COLS + 16, b_bytes);
        amx_dot(1, 4, 6);
        if (!four) continue;
        amx_load(5, next + i * TILE_COLS, b_bytes);
        amx_dot(2, 4, 5);
        amx_load(6, next + i * TILE_COLS + 16, b_bytes);
        amx_dot(3, 4, 6);
    }
    amx_store(0, c, c_bytes);
    amx_store(1, c + 16, c_bytes);
    if (four) amx_store(2, c + 32, c_bytes);
    if (four) amx_store(3, c + 48, c_bytes);
}

static inline void amx_run(const lh_tile *t, int64_t a_stride)
{
    int64_t col = 0;
    _Static_assert(TILE_COLS == 32 && VL == 16, "a panel is two tiles wide");
    amx_written();
    for (; col + TILE_COLS < t->cols; col += 2 * TILE_COLS) amx_columns(t, col, a_stride, 1);
    if (col < t->cols) amx_columns(t, col, a_stride, 0);
}

static inline void pairs_logits(const lh_tile *t, int64_t rows)
{
    (void)rows;
    amx_run(t, t->depth);
}

static inline void pairs_sums(const lh_tile *t, int64_t rows)
{
    (void)rows;
    amx_run(t, KEYS);
}

static inline void pairs_begin(void)
{
    amx_begin();
}

static inline void pairs_end(void)
{
    amx_end();
}

#endif
