/* Weights of few bits: packing, values, products of integers. */
#include "kernels/packed.h"

#include <math.h>

#include "kernels/ref/ref.h"

lh_status lh_ref_pack_weights(lh_stream *stream, const lh_pack_weights_args *a)
{
    (void)stream;
    lh_pack_weights(a);
    return LH_OK;
}

lh_status lh_ref_unpack(lh_stream *stream, const lh_unpack_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t i = 0; i < a->cols; i++)
            ref_store(a->dst, a->dst_type, r * a->dst_ld + i, lh_packed_value(&a->w, r, a->w.first + i));
    return LH_OK;
}

/* A block of x, rounded to 15 bits and their scale. */
typedef struct lh_ref_rounded {
    int32_t x[LH_PACKED_COLS];
    float scale;
} lh_ref_rounded;

static lh_ref_rounded round_block(const lh_gemm_args *a, int64_t at)
{
    lh_ref_rounded out = {.scale = 0.0f};
    float x[LH_PACKED_COLS], max = 0.0f;
    for (int64_t i = 0; i < LH_PACKED_COLS; i++) {
        x[i] = (float)ref_load(a->x, a->type, at + i);
        if (!(fabsf(x[i]) <= max)) max = fabsf(x[i]);
        if (!isfinite(x[i])) return (lh_ref_rounded){.scale = NAN};
    }
    if (max < 0x1p-100f) return out;
    const float inverse = 16255.0f / max;
    out.scale = max / 16255.0f;
    for (int64_t i = 0; i < LH_PACKED_COLS; i++) out.x[i] = (int32_t)rintf(x[i] * inverse);
    return out;
}

float ref_packed_dot(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t t)
{
    const lh_packing p = lh_packing_of_format(w->format);
    const int64_t r = row % LH_PACKED_ROWS, group = LH_PACKED_COLS / p.groups;
    float y = 0.0f;
    for (int64_t i = 0; i < a->in; i += LH_PACKED_COLS) {
        const lh_packed_block b = lh_packed_block_at(&p, w, row, w->first + i);
        const lh_ref_rounded rounded = round_block(a, t * a->x_ld + i);
        int32_t all = 0;
        for (int64_t g = 0; g < p.groups; g++) {
            int32_t sum = 0;
            for (int64_t c = g * group; c < (g + 1) * group; c++) {
                sum += lh_packed_code(&p, b, r, c) * rounded.x[c];
                all += rounded.x[c];
            }
            y = fmaf(lh_packed_scale(&p, b, r, g), rounded.scale * (float)sum, y);
        }
        if (p.minima) y = fmaf(lh_packed_offset(&p, b, r), rounded.scale * (float)all, y);
    }
    return y;
}
