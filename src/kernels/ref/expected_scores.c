/* Expected attention: the softmax of what logits of normally distributed queries are on average. */
#include "kernels/ref/attend.h"

static double expected_logit(const lh_expected_scores_args *a, int64_t i, int64_t h, int64_t s)
{
    int64_t d = a->kv->head_dim, at = (a->kv->offset[h] + s) * d;
    const float *mean = a->means + i * d, *covariance = a->covariances + i * d * d;
    double dot = 0.0, form = 0.0;
    for (int64_t x = 0; x < d; x++) {
        double k = ref_load(a->kv->k, a->kv->type, at + x), row = 0.0;
        for (int64_t y = 0; y < d; y++) row += (double)covariance[x * d + y] * ref_load(a->kv->k, a->kv->type, at + y);
        dot += mean[x] * k;
        form += k * row;
    }
    return a->scale * dot + 0.5 * a->scale * a->scale * form + ref_bias(a->kv, h, s);
}

lh_status lh_ref_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->map.heads; i++) {
        int64_t h = (a->map.first + i) / a->map.group, len = a->kv->len[h];
        const uint8_t *state = a->state + h * a->ld;
        float *y = a->y + i * a->ld;
        double row_max = -INFINITY, denominator = 0.0;
        for (int64_t s = 0; s < len; s++)
            if (state[s] == LH_ENTRY_COMPETES) row_max = fmax(row_max, expected_logit(a, i, h, s));
        for (int64_t s = 0; s < len; s++)
            if (state[s] == LH_ENTRY_COMPETES) denominator += exp(expected_logit(a, i, h, s) - row_max);
        for (int64_t s = 0; s < len; s++)
            y[s] =
                state[s] == LH_ENTRY_COMPETES ? (float)(exp(expected_logit(a, i, h, s) - row_max) / denominator) : 0.0f;
    }
    return LH_OK;
}
