/* Numbers of rows one by one: conversions, gates, sums, soft caps. */
#define LH_IN_DOUBLE
#include "kernels/elementwise.h"

#include "kernels/ref/ref.h"

lh_status lh_ref_convert(lh_stream *stream, const lh_convert_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i++)
            ref_store(a->dst, a->dst_type, r * a->dst_ld + i, ref_load(a->src, a->src_type, r * a->src_ld + i));
    }
    return LH_OK;
}

lh_status lh_ref_gated(lh_stream *stream, const lh_gated_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++) {
            double y = lh_gate_of(a->gate[t * a->ld + i], a->gate_kind) * a->up[t * a->ld + i];
            ref_store(a->y, a->y_type, t * a->y_ld + i, y);
        }
    }
    return LH_OK;
}

lh_status lh_ref_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) a->x[i] = lh_softcapped(a->x[i], a->cap);
    return LH_OK;
}

lh_status lh_ref_add(lh_stream *stream, const lh_add_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++)
            a->y[t * a->y_ld + i] += (float)ref_load(a->x, a->x_type, t * a->x_ld + i);
    }
    return LH_OK;
}

lh_status lh_ref_check_finite(lh_stream *stream, const lh_check_finite_args *a)
{
    int wrong = 0;
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) wrong |= !isfinite(a->x[i]);
    if (wrong) *a->wrong = 1;
    return LH_OK;
}
