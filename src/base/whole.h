/* whole.h - small functions of whole numbers. */
#ifndef LH_BASE_WHOLE_H
#define LH_BASE_WHOLE_H

#include <stdint.h>

static inline int64_t lh_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lh_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
