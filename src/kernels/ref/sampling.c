/* Penalties of logits and the sum of their probabilities. */
#include "kernels/ref/ref.h"

lh_status lh_ref_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->count; i++)
        a->y[i] = a->seen[i / 32] >> i % 32 & 1 ? lh_penalised(a->x[i], a->penalty) : a->x[i];
    return LH_OK;
}

lh_status lh_ref_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    (void)stream;
    *a->sum = 0;
    for (int64_t i = 0; i < a->count; i++) *a->sum += lh_probability(&a->by, a->x[i]);
    return LH_OK;
}
