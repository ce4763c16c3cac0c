/* Penalties of logits and the sum of their probabilities. */
#include "kernels/cpu/common.h"

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

/* A loop over lh_probability becomes vector code. */
enum { PROBABILITY_BLOCK = 4096 };

static lh_status op_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    const lh_probabilities by = a->by;
    int64_t sum = 0;
    (void)stream;
#pragma omp parallel for reduction(+ : sum) if (a->count >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->count; first += PROBABILITY_BLOCK) {
        int64_t end = lh_min_i64(a->count, first + PROBABILITY_BLOCK), part = 0;
        for (int64_t i = first; i < end; i++) part += lh_probability(&by, a->x[i]);
        sum += part;
    }
    *a->sum = sum;
    return LH_OK;
}
