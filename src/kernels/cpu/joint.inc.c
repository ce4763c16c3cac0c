/* One keep set for all heads: their scores are added up as integers. */
#include "kernels/cpu/common.h"

enum { JOINT_SLOTS = 4096 };

static lh_status op_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    float top = 0.0f;
    (void)stream;
#pragma omp parallel for reduction(max : top) if (a->heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < a->heads; h++) {
        float x = largest_competing(a->scores + h * a->ld, a->state + h * a->ld, a->len[h]);
        top = x > top ? x : top;
    }
    *a->y = top;
    return LH_OK;
}

static void add_whole(int64_t *sums, const float *scores, int64_t n, double scale)
{
#pragma omp simd
    for (int64_t s = 0; s < n; s++) {
        double x = scores[s] * scale;
        sums[s] += (int64_t)rint(x == x ? x : 0.0);
    }
}

static void add_slots(const lh_add_heads_args *a, int64_t first, double scale)
{
    int64_t end = lh_min_i64(first + JOINT_SLOTS, a->cols);
    memset(a->sums + first, 0, (size_t)(end - first) * sizeof *a->sums);
    for (int64_t h = 0; h < a->heads; h++)
        add_whole(a->sums + first, a->scores + h * a->ld + first, lh_min_i64(end, a->len[h]) - first, scale);
}

static lh_status op_add_heads(lh_stream *stream, const lh_add_heads_args *a)
{
    double scale = lh_joint_scale(*a->top, a->all_heads);
    (void)stream;
    FOR_EACH(n, (a->cols + JOINT_SLOTS - 1) / JOINT_SLOTS, a->heads * a->cols >= PARALLEL_FROM,
             add_slots(a, n * JOINT_SLOTS, scale));
    return LH_OK;
}
