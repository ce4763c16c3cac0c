/* f8.h - rows of f8_e4m3 weights as plain numbers: words of bf16 numbers in registers, or rows in a buffer in the
 * cache, which products read as they read plain weights. bf16 numbers come from a table of 16 words for a block: a
 * product with a scale is rounded to bf16 as the same product without its power of two. */
#ifndef LH_KERNELS_CPU_F8_H
#define LH_KERNELS_CPU_F8_H

#include "kernels/cpu/common.h"
#include "kernels/packed.h"

/* n numbers with a scale. */
VEC_FN void f8_to_f32(float *dst, const uint8_t *codes, int64_t n, float scale)
{
    const vf whole = vf_set1(scale * 256); /* of vf_load_e4m3 */
    for (int64_t i = 0; i < n; i += VL) vf_store(dst + i, whole * vf_load_e4m3(codes + i));
}

/* The table of a scale, which is 0 or makes all products normal numbers. */
VEC_FN vw f8_table(float scale)
{
    static const float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 4, 4.5f, 5, 5.5f, 6, 6.5f, 7, 7.5f}; /* times 2^-9 */
    uint16_t words[16];
    for (int i = 0; i < 16; i += VL) vf_store_weights(words + i, vf_set1(scale * 0x1p-9f) * vf_load(numbers + i));
    return vw_table(words, (int16_t)(scale == 0 ? 0x8000 : 0x8780));
}

VEC_FN void f8_to_bf16(uint16_t *dst, const uint8_t *codes, int64_t n, float scale)
{
    const vw table = f8_table(scale);
    for (int64_t i = 0; i < n; i += 2 * VL) vf_store((float *)(void *)(dst + i), vw_load(codes + i, table));
}

/* The place in a row that is read word by word. */
typedef struct lh_f8_reader {
    const uint8_t *codes, *end; /* of the next words; of the block */
    float scale;                /* of the table */
    vw table;
} lh_f8_reader;

VEC_FN void f8_enter_block(lh_f8_reader *r, const uint8_t *block, int64_t skip)
{
    float scale;
    memcpy(&scale, block, sizeof scale);
    r->codes = block + sizeof scale + skip;
    r->end = block + LH_F8_BYTES;
    if (scale != r->scale) r->table = f8_table(scale); /* else of the block before: a row or a matrix has one scale */
    r->scale = scale;
}

/* The next VL words of two bf16 numbers; the row must not have ended. */
VEC_FN vf f8_next(lh_f8_reader *r)
{
    if (r->codes == r->end) f8_enter_block(r, r->end, 0);
    const vf words = vw_load(r->codes, r->table);
    r->codes += 2 * VL;
    return words;
}

/* dst [cols] of f32 or bf16 from a row; cols is a multiple of 32. type is a constant at each call. */
VEC_FN void f8_widen(void *dst, const lh_dtype type, lh_f8_row from, int64_t cols)
{
    for (int64_t i = 0, n; i < cols; i += n) {
        const uint8_t *codes = from.block + sizeof(float) + from.skip;
        float scale;
        n = lh_min_i64(cols - i, LH_F8_VALUES - from.skip);
        memcpy(&scale, from.block, sizeof scale);
        if (type == LH_F32)
            f8_to_f32((float *)dst + i, codes, n, scale);
        else
            f8_to_bf16((uint16_t *)dst + i, codes, n, scale);
        from = (lh_f8_row){from.block + LH_F8_BYTES, 0};
    }
}

/* Rows [row, row + rows) of a matrix, columns [col, col + cols) after w.first. */
typedef struct lh_f8_part {
    const lh_matrix *w;
    int64_t row, rows, col, cols;
} lh_f8_part;

/* dst [rows, ld] of f32 or bf16. */
static inline void f8_widen_rows(void *dst, lh_dtype type, int64_t ld, const lh_f8_part *part)
{
    for (int64_t r = 0; r < part->rows; r++) {
        const lh_f8_row from = lh_f8_row_at(part->w, part->row + r, part->w->first + part->col);
        if (type == LH_F32)
            f8_widen((float *)dst + r * ld, LH_F32, from, part->cols);
        else
            f8_widen((uint16_t *)dst + r * ld, LH_BF16, from, part->cols);
    }
}

#endif
