/* tile.h - the small matrix product under attention, column sums and the ordered gemm: up to TILE_ROWS rows by
 * TILE_COLS columns in registers, one chain of multiply-adds an output. Storing and reloading the accumulators changes
 * no bit, so a chain may be cut into calls, and the bits of an output depend neither on its neighbours nor on how many
 * rows there are. */
#ifndef LH_KERNELS_CPU_TILE_H
#define LH_KERNELS_CPU_TILE_H

#include "kernels/cpu/inner.h"

#define TILE_COLS (2 * VL)

/* c[r, :] = (from_zero ? 0 : c[r, :]) + sum over i < depth of a[r, i] * b[i, :]. b: [depth, TILE_COLS] with b_ld; c:
 * with c_ld. a lies in one of two ways: packed by pack_rows ([depth, TILE_ROWS]), or, as the weights of attention do,
 * row by row with a distance of KEYS. */
typedef struct lh_tile {
    const float *a, *b;
    float *c;
    int64_t depth, b_ld, c_ld;
    int from_zero;
} lh_tile;

/* Keys of a tile of attention: tiles begin at multiples of it, counted from a head's first slot. */
enum { KEYS = 256 };

/* Everything but `t` is a constant at each call. */
VEC_FN void tile_run(const lh_tile *t, const int rows, const int64_t a_row, const int64_t a_step, const int fused)
{
    vf sum[TILE_ROWS][2];
    const float *a = t->a, *b = t->b;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        sum[r][0] = t->from_zero ? vf_zero() : vf_load(t->c + r * t->c_ld);
        sum[r][1] = t->from_zero ? vf_zero() : vf_load(t->c + r * t->c_ld + VL);
    }
    for (int64_t i = 0; i < t->depth; i++) {
        vf b0 = vf_load(b), b1 = vf_load(b + VL);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            vf x = vf_set1(a[r * a_row]);
            sum[r][0] = fused ? vf_fused(x, b0, sum[r][0]) : vf_fma(x, b0, sum[r][0]);
            sum[r][1] = fused ? vf_fused(x, b1, sum[r][1]) : vf_fma(x, b1, sum[r][1]);
        }
        a += a_step;
        b += t->b_ld;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        vf_store(t->c + r * t->c_ld, sum[r][0]);
        vf_store(t->c + r * t->c_ld + VL, sum[r][1]);
    }
}

typedef void (*lh_tile_fn)(const lh_tile *t);

#define TILE_FAMILY(name, a_row, a_step, fused)           \
    static void name##_full(const lh_tile *t)             \
    {                                                     \
        tile_run(t, TILE_ROWS, a_row, a_step, fused);     \
    }                                                     \
    static void name##_half(const lh_tile *t)             \
    {                                                     \
        tile_run(t, TILE_ROWS / 2, a_row, a_step, fused); \
    }                                                     \
    static void name##_two(const lh_tile *t)              \
    {                                                     \
        tile_run(t, 2, a_row, a_step, fused);             \
    }                                                     \
    static void name##_one(const lh_tile *t)              \
    {                                                     \
        tile_run(t, 1, a_row, a_step, fused);             \
    }                                                     \
    static const lh_tile_fn name[] = {name##_full, name##_half, name##_two, name##_one};

TILE_FAMILY(tile_packed, 1, TILE_ROWS, 0)  /* logits */
TILE_FAMILY(tile_ordered, 1, TILE_ROWS, 1) /* gemm in fixed order */
TILE_FAMILY(tile_weights, KEYS, 1, 0)      /* weights times values */

/* `rows` <= TILE_ROWS rows by any number of columns; b's next TILE_COLS columns lie b_next further. a_row: distance of
 * rows in a. */
typedef struct lh_strip {
    const lh_tile_fn *family;
    int64_t a_row, b_next, rows, cols;
} lh_strip;

static void tile_strip(const lh_tile *t, const lh_strip *strip)
{
    static const int64_t sizes[] = {TILE_ROWS, TILE_ROWS / 2, 2, 1};
    int64_t row = 0;
    for (int size = 0; row < strip->rows; size++) {
        for (; strip->rows - row >= sizes[size]; row += sizes[size]) {
            lh_tile part = *t;
            part.a += row * strip->a_row;
            part.c += row * t->c_ld;
            for (int64_t col = 0; col < strip->cols; col += TILE_COLS) {
                strip->family[size](&part);
                part.b += strip->b_next;
                part.c += TILE_COLS;
            }
        }
    }
}

/* dst[block][i][r] = factor * row (block * TILE_ROWS + r)[i], zero where there is no such row. A row r of src begins at
 * element `at(r)`: rows of several heads lie interleaved. */
typedef struct lh_rows {
    const void *src;
    lh_dtype type;
    int64_t first, outer_ld, inner, inner_ld; /* row r begins at first + r / inner * outer_ld + r % inner * inner_ld */
    int64_t count, depth;
    float factor;
} lh_rows;

static void pack_rows(float *dst, const lh_rows *rows, int64_t block)
{
    for (int64_t r = 0; r < TILE_ROWS; r++) {
        int64_t row = block * TILE_ROWS + r;
        int64_t at = rows->first + row / rows->inner * rows->outer_ld + row % rows->inner * rows->inner_ld;
        if (row >= rows->count) {
            for (int64_t i = 0; i < rows->depth; i++) dst[i * TILE_ROWS + r] = 0.0f;
        } else if (rows->type == LH_F32) {
            const float *x = (const float *)rows->src + at;
            for (int64_t i = 0; i < rows->depth; i++) dst[i * TILE_ROWS + r] = rows->factor * x[i];
        } else {
            const uint16_t *x = (const uint16_t *)rows->src + at;
            for (int64_t i = 0; i < rows->depth; i++) dst[i * TILE_ROWS + r] = rows->factor * lh_bf16_to_f32(x[i]);
        }
    }
}

/* dst[panel][i][j] = row (panel * TILE_COLS + j)[i] of src, `count` rows of `depth` elements, ld apart, from element
 * `first`; whole panels, zero where there is no row. */
typedef struct lh_columns {
    const void *src;
    lh_dtype type;
    int64_t first, ld, count, depth;
} lh_columns;

/* VL rows from j, VL elements from i; at the edges zero or not stored. */
VEC_FN void pack_square(float *dst, const lh_columns *c, int64_t j, int64_t i)
{
    vf x[VL];
    int64_t n = c->depth - i < VL ? c->depth - i : VL;
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++)
        x[r] = j + r < c->count ? vf_load_any_first(c->src, c->type, c->first + (j + r) * c->ld + i, n) : vf_zero();
    vf_transpose(x);
    for (int64_t s = 0; s < n; s++) vf_store(dst + s * TILE_COLS, x[s]);
}

static void pack_columns(float *dst, const lh_columns *c)
{
    for (int64_t j = 0; j < c->count; j += VL) {
        float *panel = dst + j / TILE_COLS * TILE_COLS * c->depth + j % TILE_COLS;
        for (int64_t i = 0; i < c->depth; i += VL) pack_square(panel + i * TILE_COLS, c, j, i);
        if (j % TILE_COLS == 0 && j + VL >= c->count) { /* nothing in the second half of the last panel */
            for (int64_t i = 0; i < c->depth; i++) vf_store(panel + i * TILE_COLS + VL, vf_zero());
        }
    }
}

#endif
