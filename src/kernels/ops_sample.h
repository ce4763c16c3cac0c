/* ops_sample.h - operations for sampling a token from logits. Probabilities are integers, which add up to the same sum
 * in any order, on any number of ranks. Every step is one rounding that IEEE 754 defines, and products that are added
 * are fused, so the numbers are the same on every backend. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_SAMPLE_H
#define LH_KERNELS_OPS_SAMPLE_H

#include <stdint.h>

#include "base/both.h"
#include <math.h>
#include <string.h>

typedef struct lh_probabilities {
    float top;   /* the largest logit, not NaN */
    int bits;    /* the probability of `top` is 2^bits */
    double rate; /* 1 / (ln 2 * temperature) */
} lh_probabilities;

/* Uses as many bits as fit in 63 for the sum over a vocabulary: 44 for 150,000 tokens; at most 48, about the accuracy
 * of lh_probability. temperature > 0. */
static inline lh_probabilities lh_probabilities_of(float top, double temperature, int64_t vocab)
{
    int room = 61 - ilogb((double)(vocab > 0 ? vocab : 1));
    return (lh_probabilities){top, room < 48 ? room : 48, 1.4426950408889634 / temperature};
}

/* 2^bits * exp((x - top) / temperature), rounded; exactly 2^bits at top, also if top is infinite, and 0 for NaN. The
 * error is at most 1/2 plus a relative 2^-46. */
static LH_BOTH inline int64_t lh_probability(const lh_probabilities *c, float x)
{
    /* Adding these leaves no bits for a fraction: the low bits of the sum are the nearest integer. */
    const double whole = 0x1.8p52, ones = 0x1p52;
    double below = (double)x - (double)c->top, shifted = fma(below, c->rate, whole);
    double f = fma(below, c->rate, whole - shifted), p = 4.44553827187081e-10, scale, sum;
    uint64_t power, probability;
    p = fma(p, f, 7.054911620801121e-9); /* ln(2)^k / k!, k = 11 .. 0 */
    p = fma(p, f, 1.0178086009239696e-7);
    p = fma(p, f, 1.3215486790144305e-6);
    p = fma(p, f, 1.5252733804059838e-5);
    p = fma(p, f, 1.5403530393381606e-4);
    p = fma(p, f, 1.3333558146428441e-3);
    p = fma(p, f, 9.618129107628477e-3);
    p = fma(p, f, 5.5504108664821576e-2);
    p = fma(p, f, 2.402265069591007e-1);
    p = fma(p, f, 6.931471805599453e-1);
    p = fma(p, f, 1.0);
    memcpy(&power, &shifted, sizeof power);
    power = (power + (uint64_t)(c->bits + 1023)) << 52;
    memcpy(&scale, &power, sizeof scale);
    sum = fma(p, scale, ones);
    memcpy(&probability, &sum, sizeof probability);
    probability =
        below * c->rate >= -64.0 ? probability & 0xfffffffffffffu : 0; /* 0 for numbers too small, and for NaN */
    return (int64_t)(x >= c->top ? (uint64_t)1 << c->bits : probability);
}

/* X(operation, summary) of this family. */
#define LH_OPS_SAMPLE(X)                                 \
    X(penalise, "logits with a bias and with penalties") \
    X(top_logits, "the largest logits of a row")         \
    X(sum_probabilities, "the sum of the probabilities of logits")

/* The k largest of each row, sorted by (value descending, index ascending), k <= cols and at most LH_BEST_MAX. NaN
 * sorts last. */
enum { LH_BEST_MAX = 1024 };
typedef struct lh_top_logits_args {
    float *values;    /* [rows, k] */
    int32_t *indices; /* [rows, k] */
    const float *x;
    int64_t rows, cols, ld, k;
} lh_top_logits_args;

/* y[i] = x[i] + bias[i], with the repeat penalty if bit i % 32 of seen[i / 32] is 1, less minus[i]. y is not x. */
typedef struct lh_penalise_args {
    float *y;
    const float *x;
    const uint32_t *seen;      /* [count / 32, rounded up] */
    const float *bias, *minus; /* [count] each; NULL: zeros */
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
