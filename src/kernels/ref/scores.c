/* Scores of entries from statistics, and what shapes them one by one. */
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/slotwise.h"

static double finished(const lh_finish_scores_args *a, double x, double squares, double n)
{
    if (a->kind == LH_FINISH_PLAIN) return a->factor * x;
    if (a->kind == LH_FINISH_ROOT) return sqrt(a->factor * x);
    if (n <= 0) return 0.0;
    if (a->kind == LH_FINISH_PER_VISIT) return a->factor * x / n;
    if (n <= 1) return 0.0; /* one number has no deviation, whatever rounding says */
    return sqrt(fmax(0.0, squares / n - x / n * (x / n)));
}

lh_status lh_ref_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t c = 0; c < a->parts; c++) {
            for (int64_t s = 0; s < a->kv->len[h]; s++) {
                double squares = a->kind == LH_FINISH_DEVIATION ? *lh_slot_at(&a->squares, h, s, c) : 0.0;
                double n = lh_visits_of(a, (double)lh_position(a->kv, h, s));
                a->y[(h * a->parts + c) * a->ld + s] = (float)finished(a, *lh_slot_at(&a->x, h, s, c), squares, n);
            }
        }
    }
    return LH_OK;
}

lh_status lh_ref_apply_prior(lh_stream *stream, const lh_apply_prior_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        float *y = a->y + h * a->ld;
        const float *prior = a->prior + h * a->ld;
        const uint8_t *state = a->state + h * a->ld;
        double top = 0.0; /* of norms */
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (state[s] == LH_ENTRY_COMPETES) top = fmax(top, prior[s]);
        }
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (state[s] == LH_ENTRY_COMPETES) y[s] = top == 0 ? 0.0f : (float)(y[s] * (prior[s] / top));
        }
    }
    return LH_OK;
}

/* Sums over what competes in head h: of scores and norms; returns how many entries those are. */
static int64_t sum_competing(const lh_defend_scores_args *a, int64_t h, double sums[2])
{
    int64_t count = 0;
    sums[0] = sums[1] = 0.0;
    for (int64_t s = 0; s < a->len[h]; s++) {
        if (a->state[h * a->ld + s] != LH_ENTRY_COMPETES) continue;
        sums[0] += a->y[h * a->ld + s];
        if (a->norms.at) sums[1] += *lh_slot_at(&a->norms, h, s, 0);
        count++;
    }
    return count;
}

lh_status lh_ref_defend_scores(lh_stream *stream, const lh_defend_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        double sums[2];
        int64_t count = sum_competing(a, h, sums);
        for (int64_t s = 0; s < a->len[h]; s++) {
            float *y = a->y + h * a->ld + s, norm = a->norms.at ? *lh_slot_at(&a->norms, h, s, 0) : -1.0f;
            if (a->state[h * a->ld + s] == LH_ENTRY_COMPETES) *y = lh_defended(*y, norm, sums, count, a->raise);
        }
    }
    return LH_OK;
}

lh_status lh_ref_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t j = 0; j < a->cols; j++) a->y[h * a->y_ld + j] = lh_reduced(a, h, j);
    }
    return LH_OK;
}

lh_status lh_ref_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    const int64_t heads = a->kv->heads;
    (void)stream;
    for (int64_t b = 0; b < a->batch; b++) {
        float top = 0.0f;
        for (int64_t h = 0; h < heads; h++) {
            const uint8_t *state = a->state + (b * heads + h) * a->ld;
            const float *scores = a->scores + b * a->scores_step + h * a->ld;
            for (int64_t s = 0; s < a->kv[b].len[h]; s++)
                if (state[s] == LH_ENTRY_COMPETES) top = fmaxf(top, fabsf(scores[s]));
        }
        a->y[b] = top;
    }
    return LH_OK;
}
