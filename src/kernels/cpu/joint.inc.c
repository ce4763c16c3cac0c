/* One keep set for all heads: their scores are added up as whole numbers. */
#include "kernels/cpu/inner.h"

enum { JOINT_SLOTS = 4096 };

static lh_status op_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    float top = 0.0f;
    (void)stream;
#pragma omp parallel for reduction(max : top) if (a->heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < a->heads; h++) {
        const float *scores = a->scores + h * a->ld;
        const uint8_t *state = a->state + h * a->ld;
        for (int64_t s = 0; s < a->len[h]; s++) {
            float x = state[s] == LH_ENTRY_COMPETES ? fabsf(scores[s]) : 0.0f;
            top = x > top ? x : top; /* not for NaN */
        }
    }
    *a->y = top;
    return LH_OK;
}

static lh_status op_add_heads(lh_stream *stream, const lh_add_heads_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->heads * a->cols >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->cols; first += JOINT_SLOTS) {
        int64_t end = lh_least(first + JOINT_SLOTS, a->cols);
        memset(a->sums + first, 0, (size_t)(end - first) * sizeof *a->sums);
        for (int64_t h = 0; h < a->heads; h++) {
            const float *scores = a->scores + h * a->ld;
            for (int64_t s = first; s < lh_least(end, a->len[h]); s++) {
                double x = scores[s] * a->scale;
                a->sums[s] += x == x ? llrint(x) : 0;
            }
        }
    }
    return LH_OK;
}

static lh_status op_share_scores(lh_stream *stream, const lh_share_scores_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->heads * a->cols >= PARALLEL_FROM)
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t s = 0; s < a->cols; s++) a->y[h * a->ld + s] = (float)((double)a->sums[s] * a->factor);
    }
    return LH_OK;
}
