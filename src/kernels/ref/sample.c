/* Penalties of logits, sums of probabilities, and the largest logits of a row. */
#include "kernels/ref/ref.h"

lh_status lh_ref_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) {
        float y = a->bias ? a->x[i] + a->bias[i] : a->x[i];
        if (a->seen[i / 32] >> i % 32 & 1) y = lh_penalised(y, a->penalty);
        a->y[i] = a->minus ? y - a->minus[i] : y;
    }
    return LH_OK;
}

lh_status lh_ref_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    (void)stream;
    *a->sum = 0;
    for (int64_t i = 0; i < a->count; i++) *a->sum += lh_probability(&a->by, a->x[i]);
    return LH_OK;
}

lh_status lh_ref_top_logits(lh_stream *stream, const lh_top_logits_args *a)
{
    (void)stream;
    assert(a->k <= a->cols && a->k <= LH_BEST_MAX);
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->x + r * a->ld;
        int64_t last =
            -1; /* index of the previous result: the next result is the best of the elements after it in the order */
        for (int64_t n = 0; n < a->k; n++) {
            int64_t best = -1;
            for (int64_t i = 0; i < a->cols; i++) {
                uint32_t key = lh_score_key(x[i]);
                int comes_after = last < 0 || key < lh_score_key(x[last]) || (key == lh_score_key(x[last]) && i > last);
                if (comes_after && (best < 0 || key > lh_score_key(x[best]))) best = i;
            }
            a->values[r * a->k + n] = x[best];
            a->indices[r * a->k + n] = (int32_t)best;
            last = best;
        }
    }
    return LH_OK;
}
