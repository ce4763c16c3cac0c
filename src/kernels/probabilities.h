/* probabilities.h - probabilities of logits as integers, which add up to the same sum in any order, on any number
 * of ranks. Every step is one rounding that IEEE 754 defines, and products that are added to something are fused, so
 * the numbers are the same on every backend, whatever its compiler contracts. */
#ifndef LH_KERNELS_PROBABILITIES_H
#define LH_KERNELS_PROBABILITIES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/both.h"

typedef struct lh_probabilities {
    float top;   /* the largest logit, not NaN */
    int bits;    /* its probability is 2^bits */
    double rate; /* 1 / (ln 2 * temperature) */
} lh_probabilities;

/* With as many bits as the sum over a vocabulary has room for in 63: 44 for 150,000 tokens. At most 48, which is about
 * what lh_probability is good for. temperature > 0. */
static inline lh_probabilities lh_probabilities_of(float top, double temperature, int64_t vocab)
{
    int room = 61 - ilogb((double)(vocab > 0 ? vocab : 1));
    return (lh_probabilities){top, room < 48 ? room : 48, 1.4426950408889634 / temperature};
}

/* 2^bits * exp((x - top) / temperature), rounded; exactly 2^bits at top, also where that is infinite, and 0 for NaN.
 * The error is at most 1/2 and 2^-46 of it. */
static LH_BOTH inline int64_t lh_probability(const lh_probabilities *c, float x)
{
    /* Adding these leaves no room for a fraction: the low bits of the sum are the nearest integer. */
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
        below * c->rate >= -64.0 ? probability & 0xfffffffffffffu : 0; /* not for what has none, nor for NaN */
    return (int64_t)(x >= c->top ? (uint64_t)1 << c->bits : probability);
}

#endif
