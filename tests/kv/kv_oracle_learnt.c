/* kv_oracle_learnt.c - learnt scores (evict/source_linear.c, add_learnt.c), written down again in double. */
#include <math.h>

#include "kv/kv_oracle.h"

/* Weights times the key, which is not rotated, the value, their squares, the logarithms of both lengths, and 1. */
oracle_number oracle_learnt(const kv_rig_case *of, int64_t layer, int64_t head, const double *k, const double *v)
{
    const int64_t d = of->dim;
    double squares[2] = {0}, sum = 0, size = 0;
    for (int64_t i = 0; i < 4 * d + 3; i++) {
        const double w = (double)kv_rig_score_weight(of, layer, head, i),
                     x = i < 4 * d ? (i / d % 2 ? v : k)[i % d] : 0;
        double feature = i < 2 * d ? x : x * x;
        if (i < 2 * d) squares[i / d] += x * x;
        if (i >= 4 * d) feature = i == 4 * d + 2 ? 1 : log(fmax(sqrt(squares[i - 4 * d]), 1e-6));
        sum += w * feature;
        size += fabs(w * feature);
    }
    return (oracle_number){sum, 2e-6 * size};
}

oracle_number oracle_larger(oracle_number score, oracle_number learnt, int64_t seen)
{
    const double worth = exp(learnt.x) / (double)seen;
    return worth > score.x ? (oracle_number){worth, worth * (learnt.error + 1e-6)} : score;
}
