/* clock.h - seconds on the monotonic clock. */
#ifndef LH_BASE_CLOCK_H
#define LH_BASE_CLOCK_H

#include <time.h>

static inline double lh_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
