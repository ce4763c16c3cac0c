#include <math.h>

#include "kernels/ref/ref.h"

static float dot_any(const lh_gemm_args *a, int64_t t, int64_t o)
{
    double sum = a->bias ? a->bias[o] : 0.0;
    for (int64_t i = 0; i < a->in; i++)
        sum += ref_load(a->x, a->type, t * a->x_ld + i) * ref_load(a->w, a->type, o * a->w_ld + i);
    return (float)sum;
}

static float dot_fixed(const lh_gemm_args *a, int64_t t, int64_t o)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < a->in; i++) {
        float x = (float)ref_load(a->x, a->type, t * a->x_ld + i);
        float w = (float)ref_load(a->w, a->type, o * a->w_ld + i);
        sum = fmaf(x, w, sum);
    }
    return a->bias ? sum + a->bias[o] : sum;
}

lh_status lh_ref_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t o = 0; o < a->out; o++)
            a->y[t * a->y_ld + o] = a->order == LH_ORDER_FIXED ? dot_fixed(a, t, o) : dot_any(a, t, o);
    }
    return LH_OK;
}

lh_status lh_ref_sum_shards(lh_stream *stream, const lh_sum_shards_args *a)
{
    (void)stream;
    for (int64_t n = 0; n < a->count; n++) {
        float sum = a->shards ? a->parts[n] : 0.0f;
        for (int64_t r = 1; r < a->shards; r++) sum += a->parts[r * a->count + n];
        a->y[n] = sum;
    }
    return LH_OK;
}

lh_status lh_ref_add(lh_stream *stream, const lh_add_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++) a->y[t * a->y_ld + i] += a->x[t * a->x_ld + i];
    }
    return LH_OK;
}
