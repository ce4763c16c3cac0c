/* f8.h - rows of f8_e4m3 weights as plain numbers, in a buffer in the cache, which products read as they read plain
 * weights. bf16 numbers come from a table of 16 words for a block: a product with a scale is rounded to bf16 as the
 * same product without its power of two. On Zen 5 the table takes 0.67 ns for 32 weights, products in f32 1.25 ns. */
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

/* Scales of normal numbers or 0. */
VEC_FN void f8_to_bf16(uint16_t *dst, const uint8_t *codes, int64_t n, float scale)
{
    static const float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 4, 4.5f, 5, 5.5f, 6, 6.5f, 7, 7.5f}; /* times 2^-9 */
    uint16_t words[16];
    for (int i = 0; i < 16; i += VL) vf_store_bf16(words + i, vf_set1(scale * 0x1p-9f) * vf_load(numbers + i));
    const vw table = vw_table(words, (int16_t)(scale == 0 ? 0x8000 : 0x8780));
    for (int64_t i = 0; i < n; i += LH_PACKED_COLS) vw_store(dst + i, codes + i, table);
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
