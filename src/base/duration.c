#include "base/duration.h"

#include <math.h>
#include <stdio.h>

const char *lh_duration_text(char out[LH_DURATION_TEXT], double seconds)
{
    const long long s = (long long)ceil(seconds), min = (s + 59) / 60;
    if (seconds < 0.1)
        snprintf(out, LH_DURATION_TEXT, "%.1f ms", 1e3 * seconds);
    else if (seconds < 1)
        snprintf(out, LH_DURATION_TEXT, "%.2f s", seconds);
    else if (s < 120)
        snprintf(out, LH_DURATION_TEXT, "%lld s", s);
    else if (min < 120)
        snprintf(out, LH_DURATION_TEXT, "%lld min", min);
    else
        snprintf(out, LH_DURATION_TEXT, "%lld h %02lld min", min / 60, min % 60);
    return out;
}

int64_t lh_duration_limit_min(double seconds)
{
    return (int64_t)ceil((1.25 * seconds / 60 + 5) / 5) * 5;
}
