/* pack.h - how the factors of tiles are laid out: rows of the left one interleaved, rows of the right one transposed
 * into panels, by squares of VL by VL numbers that are transposed in registers. Places hold floats, or words of two
 * bf16. */
#ifndef LH_KERNELS_CPU_PACK_H
#define LH_KERNELS_CPU_PACK_H

#include "kernels/cpu/tile.h"

/* Rows of the left factor, times `factor`: `count` rows of `depth` elements. Row r of src begins at element
 * first + r / inner * outer_ld + r % inner * inner_ld: the rows of several heads may lie interleaved. */
typedef struct lh_rows {
    const void *src;
    lh_dtype type;
    int64_t first, outer_ld, inner, inner_ld, count, depth;
    float factor;
} lh_rows;

/* Element at which row r begins; -1 when there is no such row. */
VEC_FN int64_t row_at(const lh_rows *rows, int64_t r)
{
    if (r >= rows->count) return -1;
    return rows->first + r / rows->inner * rows->outer_ld + r % rows->inner * rows->inner_ld;
}

/* VL elements from i on of the row that begins at `at`, or VL words of two. */
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

/* dst[i][r] = place i of row block * TILE_ROWS + r, zero where there is none. A store reaches into the next place,
 * which is written after it; the last one must not. */
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
 * dst: panels [places, TILE_COLS]; zero where there is no row or no element. Unless `ahead` is 0 the rows that are so
 * much further on are asked for meanwhile: squares read memory in an order that no processor foresees. */
typedef struct lh_columns {
    const void *src;
    lh_dtype type;
    int64_t first, ld, count, depth, ahead;
} lh_columns;

VEC_FN void ask_ahead(const lh_columns *c, int64_t at, int64_t bytes)
{
    if (c->ahead > 0) __builtin_prefetch((const char *)c->src + (at + c->ahead * c->ld) * bytes, 0, 2);
}

/* Row j of c from element i on, zero where there is nothing; `whole` promises that there is. */
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
 * two floats one after the other. */
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

/* Panels of `places` places; a square takes step[0] elements of VL rows, and step[1] of them make a place. */
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

#endif
