#include <math.h>

#include "kernels/ref/ref.h"

lh_status lh_ref_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t j = 0; j < a->cols; j++) {
            double sum = 0.0, top = -INFINITY;
            for (int64_t i = 0; i < a->group; i++) {
                double x = a->x[(h * a->group + i) * a->x_ld + j];
                sum += x;
                top = fmax(top, x);
            }
            double reduced = a->kind == LH_GROUP_MAX ? top : a->kind == LH_GROUP_MEAN ? sum / (double)a->group : sum;
            a->y[h * a->y_ld + j] = (float)(a->factor * reduced);
        }
    }
    return LH_OK;
}

/* The pooled value of the competing entry in slot s. */
static float pool_at(const lh_pool_args *a, const float *x, const uint8_t *state, int64_t len, int64_t s)
{
    int64_t half = (a->k - 1) / 2;
    double sum = x[s], top = x[s];
    for (int step = -1; step <= 1; step += 2) {
        int64_t found = 0;
        for (int64_t m = s + step; m >= 0 && m < len && found < half; m += step) {
            if (state[m] != LH_ENTRY_COMPETES) continue;
            sum += x[m];
            top = fmax(top, x[m]);
            found++;
        }
    }
    return a->kind == LH_POOL_MAX ? (float)top : (float)(sum / (double)a->k);
}

lh_status lh_ref_pool(lh_stream *stream, const lh_pool_args *a)
{
    (void)stream;
    assert(a->kind == LH_POOL_NONE || a->k % 2 == 1);
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t h = r / a->rows_per_head;
        const float *x = a->x + r * a->ld;
        const uint8_t *state = a->state + h * a->ld;
        for (int64_t s = 0; s < a->len[h]; s++) {
            float y = 0.0f;
            if (state[s] == LH_ENTRY_COMPETES) y = a->kind == LH_POOL_NONE ? x[s] : pool_at(a, x, state, a->len[h], s);
            a->y[r * a->ld + s] = y;
        }
    }
    return LH_OK;
}

lh_status lh_ref_position_scores(lh_stream *stream, const lh_position_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t s = 0; s < a->kv->len[h]; s++) a->y[h * a->ld + s] = (float)ref_position(a->kv, h, s);
    }
    return LH_OK;
}

lh_status lh_ref_classify(lh_stream *stream, const lh_classify_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t s = 0; s < a->kv->len[h]; s++) {
            int64_t p = ref_position(a->kv, h, s);
            uint8_t state = LH_ENTRY_COMPETES;
            if (p < a->visible_from)
                state = LH_ENTRY_DROP;
            else if (p < a->sinks || p >= a->recent_from)
                state = LH_ENTRY_KEEP;
            a->state[h * a->ld + s] = state;
        }
    }
    return LH_OK;
}
