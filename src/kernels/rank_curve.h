/* rank_curve.h - a number as a piecewise linear function of an entry's rank: what rank_scores gives, for every backend.
 */
#ifndef LH_KERNELS_RANK_CURVE_H
#define LH_KERNELS_RANK_CURVE_H

#include "kernels/ops_select.h"
#include "kernels/real.h"

/* The value at rank i. *point: the number of points at or before an earlier rank, or 0; then that at or before i. A
 * value between two points never leaves the range of theirs: where these fall along the ranks, no rounding makes it
 * rise. */
static LH_BOTH inline float lh_value_at_rank(const lh_rank_scores_args *a, const float *values, int64_t *point,
                                             int64_t i)
{
    while (*point < a->points && a->ranks[*point] <= (lh_real)i) ++*point;
    if (*point == 0 || *point == a->points) return values[*point > 0 ? *point - 1 : 0];
    const lh_real from = a->ranks[*point - 1], to = a->ranks[*point], x = values[*point - 1], y = values[*point];
    const lh_real low = x < y ? x : y, high = x < y ? y : x, value = x + (y - x) * (((lh_real)i - from) / (to - from));
    return (float)(value < low ? low : value > high ? high : value);
}

#endif
