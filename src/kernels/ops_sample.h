/* ops_sample.h - what choosing a token asks of logits. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_SAMPLE_H
#define LH_KERNELS_OPS_SAMPLE_H

#include <stdint.h>

#include "base/both.h"
#include "kernels/probabilities.h"

/* The k largest of each row, sorted by (value descending, index ascending), k <= cols and at most LH_BEST_MOST. NaN
 * sorts last. */
enum { LH_BEST_MOST = 1024 };
typedef struct lh_top_logits_args {
    float *values;    /* [rows, k] */
    int32_t *indices; /* [rows, k] */
    const float *x;
    int64_t rows, cols, ld, k;
} lh_top_logits_args;

/* y[i] = x[i] where bit i % 32 of seen[i / 32] is 0, else what a repeat penalty makes of it. y is not x. */
typedef struct lh_penalise_args {
    float *y;
    const float *x;
    const uint32_t *seen; /* [count / 32, rounded up] */
    int64_t count;
    double penalty;
} lh_penalise_args;

static LH_BOTH inline float lh_penalised(float x, double penalty)
{
    return (float)(x > 0.0f ? (double)x / penalty : (double)x * penalty);
}

/* *sum = sum of lh_probability(&by, x[i]). */
typedef struct lh_sum_probabilities_args {
    int64_t *sum;
    const float *x;
    int64_t count;
    lh_probabilities by;
} lh_sum_probabilities_args;

#endif
