/* fraction.h - exact fractions of integers, the same on the host and on CUDA devices. */
#ifndef LH_BASE_FRACTION_H
#define LH_BASE_FRACTION_H

#include <stdint.h>

#include "base/both.h"

/* num / den, both at most 10^18, den at least 1. */
typedef struct lh_fraction {
    int64_t num, den;
} lh_fraction;

/* floor(n * f), and the remainder that this rounding drops, times f.den. 0 <= n < 2^62. */
static LH_BOTH inline int64_t lh_fraction_of(lh_fraction f, int64_t n)
{
    return (int64_t)((__int128)n * f.num / f.den);
}

static LH_BOTH inline int64_t lh_fraction_rest(lh_fraction f, int64_t n)
{
    return (int64_t)((__int128)n * f.num % f.den);
}

/* Number of entries, of n, that the first of two stages keeps: max(least, round(share * (n + others))) - others,
 * within [0, n]; rounds up if `up` is true, else down. */
typedef struct lh_stage {
    lh_fraction share;
    int64_t others, least;
    int up;
} lh_stage;

static LH_BOTH inline int64_t lh_stage_of(lh_stage s, int64_t n)
{
    int64_t first = lh_fraction_of(s.share, n + s.others);
    first += s.up && lh_fraction_rest(s.share, n + s.others) > 0;
    if (first < s.least) first = s.least;
    first -= s.others;
    if (first < 0) first = 0;
    return first < n ? first : n;
}

#endif
