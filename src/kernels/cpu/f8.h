/* f8.h - rows of f8_e4m3 weights as plain numbers: 4 or 5 instructions for VL weights, and a store to a buffer in the
 * cache, which products read as they read plain weights. */
#ifndef LH_KERNELS_CPU_F8_H
#define LH_KERNELS_CPU_F8_H

#include "kernels/cpu/common.h"
#include "kernels/packed.h"

/* dst [cols] of f32 or bf16 from a row; cols is a multiple of 32. type is a constant at each call. */
VEC_FN void f8_widen(void *dst, const lh_dtype type, lh_f8_row from, int64_t cols)
{
    for (int64_t i = 0; i < cols;) {
        const int64_t n = lh_min_i64(cols - i, LH_F8_VALUES - from.skip);
        const uint8_t *codes = from.block + sizeof(float) + from.skip;
        float stored;
        memcpy(&stored, from.block, sizeof stored);
        const vf scale = vf_set1(stored * 256); /* of vf_load_e4m3 */
        for (int64_t end = i + n; i < end; i += VL, codes += VL) {
            if (type == LH_F32)
                vf_store((float *)dst + i, scale * vf_load_e4m3(codes));
            else
                vf_store_weights((uint16_t *)dst + i, scale * vf_load_e4m3(codes));
        }
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
