/* tile.h - the small matrix product under attention, column statistics and gemm: up to TILE_ROWS rows by TILE_COLS
 * columns in registers, one chain of multiply-adds an output. Storing and reloading the accumulators changes no bit, so
 * a chain may be cut into calls, and the bits of an output depend neither on its neighbours nor on how many rows there
 * are. */
#ifndef LH_KERNELS_CPU_TILE_H
#define LH_KERNELS_CPU_TILE_H

#include "kernels/cpu/common.h"

#define TILE_COLS (2 * VL)

/* c[r, j] = (from_zero ? 0 : c[r, j]) + sum over i < depth of a[r, i] * b[i, j] for j < cols, rounded up to TILE_COLS.
 * b: panels [depth, TILE_COLS], b_next apart; c: with c_ld. a lies in one of two ways: packed ([depth, TILE_ROWS],
 * pack.h), or, as the weights of attention do, row by row with a distance of KEYS. An element of a and b may be a word
 * of two bf16 (the first in the lower half) and stand for two terms of the sum. */
typedef struct lh_tile {
    const float *a, *b;
    float *c;
    int64_t depth, cols, b_next, c_ld;
    int from_zero;
} lh_tile;

/* Keys of a tile of attention: tiles begin at multiples of it, counted from a head's first slot. */
enum { KEYS = 256 };
_Static_assert(LH_SHARED_BLOCK % KEYS == 0, "a tile lies in one segment");

typedef enum lh_tile_kind { TILE_FAST, TILE_FUSED, TILE_PAIRS } lh_tile_kind;

VEC_FN vf tile_add(vf a, vf b, vf sum, const lh_tile_kind kind)
{
    return kind == TILE_PAIRS ? vf_dot(a, b, sum) : kind == TILE_FUSED ? vf_fused(a, b, sum) : vf_fma(a, b, sum);
}

/* Everything but `t` is a constant at each call. */
VEC_FN void tile_run(const lh_tile *t, const int rows, const int64_t a_row, const int64_t a_step,
                     const lh_tile_kind kind)
{
    const int64_t depth = t->depth, c_ld = t->c_ld;
    const int from_zero = t->from_zero;
    for (int64_t col = 0; col < t->cols; col += TILE_COLS) {
        const float *a = t->a, *b = t->b + col / TILE_COLS * t->b_next;
        float *c = t->c + col;
        vf sum[TILE_ROWS][2];
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            sum[r][0] = from_zero ? vf_zero() : vf_load(c + r * c_ld);
            sum[r][1] = from_zero ? vf_zero() : vf_load(c + r * c_ld + VL);
        }
        for (int64_t i = 0; i < depth; i++, a += a_step, b += TILE_COLS) {
            vf b0 = vf_load(b), b1 = vf_load(b + VL);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                vf x = vf_set1(a[r * a_row]);
                sum[r][0] = tile_add(x, b0, sum[r][0], kind);
                sum[r][1] = tile_add(x, b1, sum[r][1], kind);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            vf_store(c + r * c_ld, sum[r][0]);
            vf_store(c + r * c_ld + VL, sum[r][1]);
        }
    }
}

typedef void (*lh_tile_fn)(const lh_tile *t);

/* Between two rows and half a tile. */
enum { SOME_ROWS = TILE_ROWS / 2 > 4 ? 4 : 2 };

/* Functions for TILE_ROWS rows and for less. */
#define TILE_FAMILY(name, a_row, a_step, kind)           \
    static void name##_full(const lh_tile *t)            \
    {                                                    \
        tile_run(t, TILE_ROWS, a_row, a_step, kind);     \
    }                                                    \
    static void name##_half(const lh_tile *t)            \
    {                                                    \
        tile_run(t, TILE_ROWS / 2, a_row, a_step, kind); \
    }                                                    \
    static void name##_some(const lh_tile *t)            \
    {                                                    \
        tile_run(t, SOME_ROWS, a_row, a_step, kind);     \
    }                                                    \
    static void name##_two(const lh_tile *t)             \
    {                                                    \
        tile_run(t, 2, a_row, a_step, kind);             \
    }                                                    \
    static void name##_one(const lh_tile *t)             \
    {                                                    \
        tile_run(t, 1, a_row, a_step, kind);             \
    }                                                    \
    static const lh_tile_fn name[] = {name##_full, name##_half, name##_some, name##_two, name##_one};

TILE_FAMILY(tile_packed, 1, TILE_ROWS, TILE_FAST)   /* logits, gemm */
TILE_FAMILY(tile_ordered, 1, TILE_ROWS, TILE_FUSED) /* gemm in fixed order */
TILE_FAMILY(tile_weights, KEYS, 1, TILE_FAST)       /* weights times values */

/* `rows` <= TILE_ROWS rows, a_row apart in a. */
static inline void tile_strip(const lh_tile *t, const lh_tile_fn *family, int64_t rows, int64_t a_row)
{
    static const int64_t sizes[] = {TILE_ROWS, TILE_ROWS / 2, SOME_ROWS, 2, 1};
    lh_tile part = *t;
    for (int size = 0; rows > 0; size++) {
        for (; rows >= sizes[size]; rows -= sizes[size]) {
            family[size](&part);
            part.a += sizes[size] * a_row;
            part.c += sizes[size] * t->c_ld;
        }
    }
}

#endif
