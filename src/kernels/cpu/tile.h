/* tile.h - the small matrix product of attention, column statistics and gemm: up to TILE_ROWS rows by TILE_COLS columns
 * in registers, one chain of multiply-adds per output. Storing and reloading the accumulators changes no bit, so a
 * chain may be cut into calls, and the bits of an output depend neither on its neighbours nor on the number of rows. */
#ifndef LH_KERNELS_CPU_TILE_H
#define LH_KERNELS_CPU_TILE_H

#include "kernels/cpu/tile.h"

#include "kernels/cpu/common.h"

#define TILE_COLS (2 * VL)

/* c[r, j] = (from_zero ? 0 : c[r, j]) + sum over i < depth of a[r, i] * b[i, j] for j < cols, rounded up to TILE_COLS.
 * b: panels [depth, TILE_COLS], b_next apart; c: with c_ld. a is packed ([depth, TILE_ROWS], below), or, for the
 * weights of attention, row by row with a distance of KEYS. An element of a and b may be a word of two bf16 (the first
 * in the lower half), for two terms of the sum. */
typedef struct lh_tile {
    const float *a, *b;
    float *c;
    int64_t depth, cols, b_next, c_ld;
    int from_zero;
} lh_tile;

/* Keys of a tile of attention: tiles begin at multiples of KEYS, counted from a head's first slot. */
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

/* A number of rows between two and half a tile. */
enum { SOME_ROWS = TILE_ROWS / 2 > 4 ? 4 : 2 };

/* Functions for TILE_ROWS rows and for fewer. */
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

/* ---- packing the factors of tiles ----
 *
 * Rows of the left factor are interleaved, rows of the right one are transposed into panels, by squares of VL by VL
 * numbers that are transposed in registers. Places hold floats, or words of two bf16. */
/* Rows of the left factor, times `factor`: `count` rows of `depth` elements. Row r of src begins at element first + r /
 * inner * outer_ld + r % inner * inner_ld: the rows of several heads may be interleaved. */
typedef struct lh_rows {
    const void *src;
    lh_dtype type;
    int64_t first, outer_ld, inner, inner_ld, count, depth;
    float factor;
} lh_rows;

/* Element at which row r begins; -1 if there is no such row. */
VEC_FN int64_t row_at(const lh_rows *rows, int64_t r)
{
    if (r >= rows->count) return -1;
    return rows->first + r / rows->inner * rows->outer_ld + r % rows->inner * rows->inner_ld;
}

/* VL elements, or VL words of two, from i on of the row that begins at `at`. */
VEC_FN vf row_floats(const lh_rows *rows, int64_t at, int64_t i)
{
    if (at < 0 || i >= rows->depth) return vf_zero();
    return vf_set1(rows->factor) * vf_load_any_first(rows->src, rows->type, at + i, rows->depth - i);
}

VEC_FN vf row_words(const lh_rows *rows, int64_t at, int64_t i)
{
    uint16_t words[2 * VL];
    vf_store_bf16(words, row_floats(rows, at, i));
    vf_store_bf16(words + VL, row_floats(rows, at, i + VL));
    return vf_load_words(words, 2 * VL);
}

/* dst[i][r] = place i of row block * TILE_ROWS + r, zero if there is none. A store overlaps the next place, which is
 * written after it; the last store must not. */
VEC_FN void pack_block(float *dst, const lh_rows *rows, int64_t block, const int pairs)
{
    int64_t depth = pairs ? (rows->depth + 1) / 2 : rows->depth;
    for (int64_t i = 0; i < depth; i += VL) {
        vf x[VL];
        for (int r = 0; r < VL; r++) {
            int64_t at = r < TILE_ROWS ? row_at(rows, block * TILE_ROWS + r) : -1;
            x[r] = pairs ? row_words(rows, at, 2 * i) : row_floats(rows, at, i);
        }
        vf_transpose(x);
        for (int64_t s = 0; s < lh_min_i64(VL, depth - i); s++)
            vf_store_first(dst + (i + s) * TILE_ROWS, x[s], i + s + 1 < depth ? VL : TILE_ROWS);
    }
}

static inline void pack_rows(float *dst, const lh_rows *rows, int64_t block)
{
    pack_block(dst, rows, block, 0);
}

/* Rows of the right factor, which become columns: `count` rows of `depth` elements, ld apart, from element `first`. In
 * dst: panels [places, TILE_COLS]; zero for missing rows and elements. If `ahead` is not 0, the rows that many rows
 * further on are prefetched: no hardware prefetcher follows the order of squares. */
typedef struct lh_columns {
    const void *src;
    lh_dtype type;
    int64_t first, ld, count, depth, ahead;
} lh_columns;

VEC_FN void ask_ahead(const lh_columns *c, int64_t at, int64_t bytes)
{
    if (c->ahead > 0) __builtin_prefetch((const char *)c->src + (at + c->ahead * c->ld) * bytes, 0, 2);
}

/* Row j of c from element i on, zero outside; `whole` promises that it is inside. */
VEC_FN vf column_floats(const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    const float *src = (const float *)c->src + c->first + j * c->ld + i;
    if (whole) ask_ahead(c, c->first + j * c->ld + i, sizeof *src);
    return whole ? vf_load(src) : j < c->count ? vf_load_first(src, c->depth - i) : vf_zero();
}

VEC_FN vf column_words(const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    const uint16_t *src = (const uint16_t *)c->src + c->first + j * c->ld + i;
    if (whole) ask_ahead(c, c->first + j * c->ld + i, sizeof *src);
    return whole ? vf_load_words(src, 2 * VL) : j < c->count ? vf_load_words(src, c->depth - i) : vf_zero();
}

/* A square: VL rows from j on. Of f32 VL floats each from element i on; of bf16 VL words, which stay words or become
 * two floats each. */
VEC_FN void pack_floats(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    vf x[VL];
    for (int r = 0; r < VL; r++) x[r] = column_floats(c, j + r, i, whole);
    vf_transpose(x);
    for (int64_t s = 0; s < VL && (whole || i + s < c->depth); s++) vf_store(dst + s * TILE_COLS, x[s]);
}

VEC_FN void pack_words(float *dst, const lh_columns *c, int64_t j, int64_t i, const int whole)
{
    vf x[VL];
    for (int r = 0; r < VL; r++) x[r] = column_words(c, j + r, i, whole);
    vf_transpose(x);
    for (int64_t s = 0; s < VL && (whole || i + 2 * s < c->depth); s++) vf_store(dst + s * TILE_COLS, x[s]);
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

/* Panels of `places` places; a square takes step[0] elements of VL rows, and step[1] elements make a place. */
VEC_FN void pack_panels(float *dst, const lh_columns *c, lh_square_fn square, const int64_t step[2], int64_t places)
{
    for (int64_t j = 0; j < round_up(c->count, TILE_COLS); j += VL) {
        float *panel = dst + j / TILE_COLS * TILE_COLS * places + j % TILE_COLS;
        int64_t i = 0;
        for (; i + step[0] <= c->depth && j + VL <= c->count; i += step[0])
            square(panel + i / step[1] * TILE_COLS, c, j, i, 1);
        for (; i < c->depth; i += step[0]) square(panel + i / step[1] * TILE_COLS, c, j, i, 0);
        for (int64_t p = (c->depth + step[1] - 1) / step[1]; p < places; p++)
            vf_store(panel + p * TILE_COLS, vf_zero());
    }
}

static inline void pack_columns(float *dst, const lh_columns *c)
{
    if (c->type == LH_F32)
        pack_panels(dst, c, pack_floats, (const int64_t[]){VL, 1}, c->depth);
    else
        pack_panels(dst, c, pack_widened, (const int64_t[]){2 * VL, 1}, c->depth);
}

/* bf16 only; `places` >= the words of a row. */
static inline void pack_column_words(float *dst, const lh_columns *c, int64_t places)
{
    pack_panels(dst, c, pack_words, (const int64_t[]){2 * VL, 2}, places);
}

/* ---- products in pairs of bf16 ----
 *
 * For attention over a bf16 cache: queries, keys, values and weights are multiplied in pairs of bf16 and added in f32,
 * by vectors (pairs_vec.h) or by matrix tiles (pairs_amx.h), as isa_*.c choose.
 *
 *   BLOCK_IN_PAIRS       1 if that is faster than in floats
 *   PAIR_ROWS            rows of a block, at most VL
 *   pair_words(n)        words of n elements in a row, a panel's column or the weights of a row; zero after n
 *   pack_row_pairs       a block of PAIR_ROWS rows, PAIR_ROWS * pair_words(depth) words
 *   pairs_logits         tile_strip for a packed block and panels of keys
 *   pairs_sums           tile_strip for rows of weights, KEYS floats apart, and panels of values
 *   pairs_begin, _end    around the work of a thread
 *
 * Rows of c after `rows` up to PAIR_ROWS may be written. */
#include LH_PAIRS_HEADER

#endif
