/* minmax.h - the smaller and the larger of two 64-bit integers. */
#ifndef LH_BASE_MINMAX_H
#define LH_BASE_MINMAX_H

#include <stdint.h>

#include "base/both.h"

static LH_BOTH inline int64_t lh_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static LH_BOTH inline int64_t lh_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
