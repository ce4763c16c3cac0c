/* Matrix products, with sums in double or in the fixed order. */
#include <math.h>

#include "kernels/ref/ref.h"

static float dot_any(const lh_gemm_args *a, int64_t t, int64_t o)
{
    double sum = (a->bias ? a->bias[o] : 0.0) + (a->adds ? a->y[t * a->y_ld + o] : 0.0f);
    for (int64_t i = 0; i < a->in; i++)
        sum += ref_load(a->x, a->type, t * a->x_ld + i) * ref_load(a->w.data, a->type, o * a->w.ld + i);
    return (float)sum;
}

static float dot_fixed(const lh_gemm_args *a, int64_t t, int64_t o)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < a->in; i++) {
        float x = (float)ref_load(a->x, a->type, t * a->x_ld + i);
        float w = (float)ref_load(a->w.data, a->type, o * a->w.ld + i);
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
