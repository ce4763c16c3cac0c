/* tile.h - the small matrix product under attention, column sums and the
 * ordered gemm: up to TILE_ROWS rows by TILE_COLS columns in registers, one
 * chain of multiply-adds an output. Storing and reloading the accumulators
 * changes no bit, so a chain may be cut into calls, and the bits of an output
 * depend neither on its neighbours nor on how many rows there are. */
#ifndef LH_KERNELS_CPU_TILE_H
#define LH_KERNELS_CPU_TILE_H

#include "kernels/cpu/inner.h"

#define TILE_COLS (2 * VL)

/* c[r, j] = (from_zero ? 0 : c[r, j]) + sum over i < depth of a[r, i] * b[i, j] for j < cols, rounded up to TILE_COLS.
 * b: panels [depth, TILE_COLS], b_next apart; c: with c_ld. a lies in one of two ways: packed by pack_rows ([depth,
 * TILE_ROWS]), or, as the weights of attention do, row by row with a distance of KEYS. An element of a and b may be a
 * word of two bf16 (the lower half first) and stand for two terms of the sum. */
typedef struct lh_tile {
    const float *a, *b;
    float *c;
    int64_t depth, cols, b_next, c_ld;
    int from_zero;
} lh_tile;

/* Keys of a tile of attention: tiles begin at multiples of it, counted from a
 * head's first slot. */
enum { KEYS = 256 };

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

#define TILE_FAMILY(name, a_row, a_step, kind)           \
    static void name##_full(const lh_tile *t)            \
    {                                                    \
        tile_run(t, TILE_ROWS, a_row, a_step, kind);     \
    }                                                    \
    static void name##_half(const lh_tile *t)            \
    {                                                    \
        tile_run(t, TILE_ROWS / 2, a_row, a_step, kind); \
    }                                                    \
    static void name##_two(const lh_tile *t)             \
    {                                                    \
        tile_run(t, 2, a_row, a_step, kind);             \
    }                                                    \
    static void name##_one(const lh_tile *t)             \
    {                                                    \
        tile_run(t, 1, a_row, a_step, kind);             \
    }                                                    \
    static const lh_tile_fn name[] = {name##_full, name##_half, name##_two, name##_one};

TILE_FAMILY(tile_packed, 1, TILE_ROWS, TILE_FAST)        /* logits */
TILE_FAMILY(tile_packed_pairs, 1, TILE_ROWS, TILE_PAIRS) /* logits and gemm */
TILE_FAMILY(tile_ordered, 1, TILE_ROWS, TILE_FUSED)      /* gemm in fixed order */
TILE_FAMILY(tile_weights, KEYS, 1, TILE_FAST)            /* weights times values */
TILE_FAMILY(tile_weights_pairs, KEYS, 1, TILE_PAIRS)

/* `rows` <= TILE_ROWS rows, a_row apart in a. */
static inline void tile_strip(const lh_tile *t, const lh_tile_fn *family, int64_t rows, int64_t a_row)
{
    static const int64_t sizes[] = {TILE_ROWS, TILE_ROWS / 2, 2, 1};
    lh_tile part = *t;
    for (int size = 0; rows > 0; size++) {
        for (; rows >= sizes[size]; rows -= sizes[size]) {
            family[size](&part);
            part.a += sizes[size] * a_row;
            part.c += sizes[size] * t->c_ld;
        }
    }
}

/* dst[block][i][r] = factor * row (block * TILE_ROWS + r)[i], zero where there
 * is no such row: `depth` elements as f32, or as words of two bf16. The rows of
 * several heads may lie interleaved in src. */
typedef struct lh_rows {
    const void *src;
    lh_dtype type;
    int64_t first, outer_ld, inner, inner_ld; /* row r begins at first + r / inner * outer_ld + r % inner *
                                                 inner_ld */
    int64_t count, depth;
    float factor;
} lh_rows;

/* Up to VL rows' elements from i on: VL floats of each, or VL words. */
VEC_FN void load_rows(vf x[VL], const lh_rows *rows, const int64_t *at, int64_t i, const int pairs)
{
    vf factor = vf_set1(rows->factor);
    int64_t n = rows->depth - i;
    for (int r = 0; r < TILE_ROWS; r++) {
        uint16_t words[2 * VL];
        if (at[r] < 0) {
            x[r] = vf_zero();
        } else if (pairs) {
            vf low = vf_load_any_first(rows->src, rows->type, at[r] + i, n), high = vf_zero();
            if (n > VL) high = vf_load_any_first(rows->src, rows->type, at[r] + i + VL, n - VL);
            vf_store_bf16(words, factor * low);
            vf_store_bf16(words + VL, factor * high);
            x[r] = vf_load_words(words, 2 * VL);
        } else {
            x[r] = factor * vf_load_any_first(rows->src, rows->type, at[r] + i, n);
        }
    }
    for (int r = TILE_ROWS; r < VL; r++) x[r] = vf_zero();
}

/* A store reaches into the next place, which is written after it; the last one
 * must not. */
VEC_FN void pack_block(float *dst, const lh_rows *rows, int64_t block, const int pairs)
{
    int64_t at[TILE_ROWS], depth = pairs ? (rows->depth + 1) / 2 : rows->depth;
    for (int64_t r = 0; r < TILE_ROWS; r++) {
        int64_t row = block * TILE_ROWS + r;
        at[r] = rows->first + row / rows->inner * rows->outer_ld + row % rows->inner * rows->inner_ld;
        if (row >= rows->count) at[r] = -1;
    }
    for (int64_t i = 0; i < depth; i += VL) {
        vf x[VL];
        load_rows(x, rows, at, pairs ? 2 * i : i, pairs);
        vf_transpose(x);
        for (int64_t s = 0; s < least(VL, depth - i); s++)
            vf_store_first(dst + (i + s) * TILE_ROWS, x[s], i + s + 1 < depth ? VL : TILE_ROWS);
    }
}

static inline void pack_rows(float *dst, const lh_rows *rows, int64_t block)
{
    pack_block(dst, rows, block, 0);
}

static inline void pack_row_pairs(float *dst, const lh_rows *rows, int64_t block)
{
    pack_block(dst, rows, block, 1);
}

/* dst[panel][i][j] = row (panel * TILE_COLS + j)[i] of src, `count` rows of
 * `depth` elements, ld apart, from element `first`; whole panels, zero where
 * there is no row. As f32, or as words of two bf16 (src is bf16 then). */
typedef struct lh_columns {
    const void *src;
    lh_dtype type;
    int64_t first, ld, count, depth;
} lh_columns;

/* Row j + r of c from element i on, zero where there is nothing; `whole`
 * promises that there is. */
VEC_FN vf column_floats(const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    const float *src = (const float *)c->src + c->first + j * c->ld + i;
    return whole ? vf_load(src) : j < c->count ? vf_load_first(src, c->depth - i) : vf_zero();
}

VEC_FN vf column_words(const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    const uint16_t *src = (const uint16_t *)c->src + c->first + j * c->ld + i;
    return whole ? vf_load_words(src, 2 * VL) : j < c->count ? vf_load_words(src, c->depth - i) : vf_zero();
}

/* VL rows from j on; VL floats of each from i on. */
VEC_FN void pack_floats(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    vf x[VL];
    int64_t n = whole ? VL : least(c->depth - i, VL);
    for (int r = 0; r < VL; r++) x[r] = column_floats(c, j + r, i, whole);
    vf_transpose(x);
    for (int64_t s = 0; s < n; s++) vf_store(dst + s * TILE_COLS, x[s]);
}

/* The same with VL words of two bf16 from element i on, stored as words or as
 * floats one behind the other. */
VEC_FN void pack_words(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    vf x[VL];
    for (int r = 0; r < VL; r++) x[r] = column_words(c, j + r, i, whole);
    vf_transpose(x);
    for (int64_t s = 0; s < (whole ? VL : least((c->depth - i + 1) / 2, VL)); s++) vf_store(dst + s * TILE_COLS, x[s]);
}

VEC_FN void pack_widened(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    vf x[VL];
    for (int r = 0; r < VL; r++) x[r] = column_words(c, j + r, i, whole);
    vf_transpose(x);
    for (int64_t s = 0; s < VL && (whole || i + 2 * s < c->depth); s++) {
        vf_store(dst + 2 * s * TILE_COLS, vf_even(x[s]));
        if (whole || i + 2 * s + 1 < c->depth) vf_store(dst + (2 * s + 1) * TILE_COLS, vf_odd(x[s]));
    }
}

typedef void (*lh_square_fn)(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole);

/* A square takes `step` elements of VL rows; they come to lie step / shrink
 * places apart. */
VEC_FN void pack_panels(float *dst, const lh_columns *c, lh_square_fn square, int64_t step, int64_t shrink)
{
    int64_t depth = (c->depth + shrink - 1) / shrink;
    for (int64_t j = 0; j < round_up(c->count, TILE_COLS); j += VL) {
        float *panel = dst + j / TILE_COLS * TILE_COLS * depth + j % TILE_COLS;
        int64_t i = 0;
        for (; i + step <= c->depth && j + VL <= c->count; i += step)
            square(panel + i / shrink * TILE_COLS, c, j, i, 1);
        for (; i < c->depth; i += step) square(panel + i / shrink * TILE_COLS, c, j, i, 0);
    }
}

static inline void pack_columns(float *dst, const lh_columns *c)
{
    if (c->type == LH_F32)
        pack_panels(dst, c, pack_floats, VL, 1);
    else
        pack_panels(dst, c, pack_widened, 2 * VL, 1);
}

static inline void pack_column_pairs(float *dst, const lh_columns *c)
{
    pack_panels(dst, c, pack_words, 2 * VL, 2);
}

#endif
