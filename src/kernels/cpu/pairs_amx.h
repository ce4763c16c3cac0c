/* pairs_amx.h - attention in pairs of bf16 by matrix tiles (see tile.h). Eight tile registers of AMX, 16 rows of 64
 * bytes each; tile numbers are constants. Defining LH_AMX_EMULATED gives the same in plain C, for tests on any
 * processor. Rows of queries are stored in words; depths are whole tiles of 16 words; a block is always computed with
 * all 16 rows. */
#ifndef LH_KERNELS_CPU_PAIRS_AMX_H
#define LH_KERNELS_CPU_PAIRS_AMX_H

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#if defined(LH_AMX_EMULATED)

static _Thread_local float amx_tiles[8][16][16];

static inline void amx_begin(void)
{
}

static inline void amx_end(void)
{
}

static inline void amx_written(void)
{
}

static inline void amx_zero(int tile)
{
    memset(amx_tiles[tile], 0, sizeof amx_tiles[tile]);
}

/* Rows `stride` bytes apart. */
static inline void amx_load(int tile, const void *p, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy(amx_tiles[tile][r], (const char *)p + r * stride, 64);
}

static inline void amx_store(int tile, void *p, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy((char *)p + r * stride, amx_tiles[tile][r], 64);
}

/* c[m][n] += sum over k of the products of both bf16 in the words a[m][k] and b[k][n]. */
static inline void amx_dot(int c, int a, int b)
{
    for (int m = 0; m < 16; m++) {
        for (int n = 0; n < 16; n++) {
            for (int k = 0; k < 16; k++) {
                uint16_t x[2], y[2];
                memcpy(x, &amx_tiles[a][m][k], sizeof x);
                memcpy(y, &amx_tiles[b][k][n], sizeof y);
                amx_tiles[c][m][n] += lh_bf16_to_f32(x[0]) * lh_bf16_to_f32(y[0]);
                amx_tiles[c][m][n] += lh_bf16_to_f32(x[1]) * lh_bf16_to_f32(y[1]);
            }
        }
    }
}

#else

#include <immintrin.h>

/* All tiles have 16 rows of 64 bytes. gcc 12's _tile_loadconfig declares only 8 of the 64 bytes that it reads. */
static inline void amx_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static inline void amx_end(void)
{
    _tile_release();
}

/* Before loads of memory that ordinary code has written: gcc 12's _tile_loadd does not declare that it reads memory. */
static inline void amx_written(void)
{
    __asm__ volatile("" : : : "memory");
}

#define amx_zero(tile) _tile_zero(tile)
#define amx_load(tile, p, stride) _tile_loadd(tile, p, stride)
#define amx_store(tile, p, stride) _tile_stored(tile, p, stride)
#define amx_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#endif

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

/* 16 rows, a_stride words apart, by two or four times 16 columns from `col` on. Four independent products hide the
 * latency of each. */
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
