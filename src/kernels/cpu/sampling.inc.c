/* What choosing a token asks of logits, besides the largest ones. */
#include "kernels/cpu/inner.h"

static lh_status op_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    (void)stream;
    memcpy(a->y, a->x, (size_t)a->count * sizeof *a->y);
    for (int64_t first = 0; first < a->count; first += 32) {
        int64_t end = lh_min_i64(a->count, first + 32);
        if (a->seen[first / 32] == 0) continue;
        for (int64_t i = first; i < end; i++)
            if (a->seen[first / 32] >> (i - first) & 1) a->y[i] = lh_penalised(a->x[i], a->penalty);
    }
    return LH_OK;
}

/* A loop over lh_chance becomes vector code. */
enum { CHANCE_BLOCK = 4096 };

static lh_status op_sum_chances(lh_stream *stream, const lh_sum_chances_args *a)
{
    const lh_chances by = a->by;
    int64_t sum = 0;
    (void)stream;
#pragma omp parallel for reduction(+ : sum) if (a->count >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->count; first += CHANCE_BLOCK) {
        int64_t end = lh_min_i64(a->count, first + CHANCE_BLOCK), part = 0;
        for (int64_t i = first; i < end; i++) part += lh_chance(&by, a->x[i]);
        sum += part;
    }
    *a->sum = sum;
    return LH_OK;
}
