/* One keep set for all heads: their scores are added up as integers, whose sum does not depend on its order. */
#include <math.h>

#include "kernels/ref/ref.h"

lh_status lh_ref_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    float top = 0.0f;
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (a->state[h * a->ld + s] == LH_ENTRY_COMPETES) top = fmaxf(top, fabsf(a->scores[h * a->ld + s]));
        }
    }
    *a->y = top;
    return LH_OK;
}

lh_status lh_ref_add_heads(lh_stream *stream, const lh_add_heads_args *a)
{
    double scale = lh_joint_scale(*a->top, a->all_heads);
    (void)stream;
    for (int64_t s = 0; s < a->cols; s++) {
        a->sums[s] = 0;
        for (int64_t h = 0; h < a->heads; h++) {
            if (s >= a->len[h]) continue;
            double x = a->scores[h * a->ld + s] * scale;
            a->sums[s] += isnan(x) ? 0 : llrint(x);
        }
    }
    return LH_OK;
}
