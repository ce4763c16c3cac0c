#include "lab/report/scale.h"

#include <math.h>
#include <string.h>

static const double LOG_SPAN = 30;

double lh_point_value(const lh_figure_dim *dim, int64_t i)
{
    return dim->values ? dim->values[i] : (double)i;
}

/* 1 where three or more points lie at even distances, as positions do. */
static int is_even(const lh_figure_dim *dim)
{
    const double *v = dim->values;
    for (int64_t i = 2; i < dim->count; i++)
        if (fabs(v[i] - v[i - 1] - (v[1] - v[0])) > 1e-3 * fabs(v[1] - v[0])) return 0;
    return dim->count > 2;
}

void lh_scale_of_dim(lh_scale *scale, const lh_figure_dim *dim)
{
    *scale = (lh_scale){.low = INFINITY, .high = -INFINITY};
    for (int64_t i = 0; i < dim->count; i++) {
        scale->low = fmin(scale->low, lh_point_value(dim, i));
        scale->high = fmax(scale->high, lh_point_value(dim, i));
    }
    scale->log = dim->values && scale->low > 0 && scale->high / scale->low > LOG_SPAN && !is_even(dim);
    if (scale->low == scale->high) {
        scale->low -= 0.5;
        scale->high += 0.5;
    }
}

double lh_round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    const double digit = least / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

void lh_scale_of_values(lh_scale *scale, double low, double high, const char *unit)
{
    *scale = (lh_scale){.low = 0, .high = 1};
    if (!(low <= high) || !isfinite(high - low)) return;
    scale->log = low > 0 && high / low > LOG_SPAN && !strstr(unit, "share of");
    if (scale->log) {
        scale->low = pow(10, floor(log10(low)));
        scale->high = pow(10, ceil(log10(high)));
        return;
    }
    if (low > 0) low = 0;
    if (high < 0) high = 0;
    if (low == high) high = low + 1;
    const double step = lh_round_step((high - low) / 5);
    scale->low = step * floor(low / step);
    scale->high = step * ceil(high / step - 1e-9);
}

double lh_scale_at(const lh_scale *scale, double value)
{
    const double at = scale->log ? log(value / scale->low) / log(scale->high / scale->low)
                                 : (value - scale->low) / (scale->high - scale->low);
    return scale->from + at * (scale->to - scale->from);
}

int lh_scale_ticks(const lh_scale *scale, double ticks[LH_TICKS])
{
    int n = 0;
    if (scale->log) {
        const double first = ceil(log10(scale->low) - 1e-9), last = floor(log10(scale->high) + 1e-9);
        const double step = fmax(1, ceil((last - first + 1) / LH_TICKS));
        for (double e = first; e <= last && n < LH_TICKS; e += step) ticks[n++] = pow(10, e);
    } else {
        const double step = lh_round_step((scale->high - scale->low) / 5);
        for (double k = ceil(scale->low / step - 1e-9); k * step <= scale->high + 1e-9 * step && n < LH_TICKS; k++)
            ticks[n++] = k * step;
    }
    return n;
}
