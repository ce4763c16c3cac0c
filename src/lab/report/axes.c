/* axes.c - what all drawings of a figure share: scales and their ticks, the ranges of an axis of values, the styles of
 * series. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/report/report_impl.h"

static const double LOG_SPAN = 10;

/* ---- scales ---- */

double lh_point_value(const lh_figure_dim *dim, int64_t i)
{
    return dim->values ? dim->values[i] : (double)i;
}

/* 1 if three or more points lie at even distances, as positions do. */
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
    scale->log = dim->values && scale->low > 0 && scale->high / scale->low > LOG_SPAN * (1 + 1e-9) && !is_even(dim);
    if (scale->low == scale->high) {
        scale->low -= 0.5;
        scale->high += 0.5;
    }
}

double lh_scale_at(const lh_scale *scale, double value)
{
    const double at = scale->log ? log(fmax(value, scale->low) / scale->low) / log(scale->high / scale->low)
                                 : (value - scale->low) / (scale->high - scale->low);
    return scale->from + at * (scale->to - scale->from);
}

double lh_round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    const double digit = least / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* The k-th of the values 1, 2, 5, 10, 20, …; below 1 for a negative k. */
static double level(int k)
{
    static const double digits[] = {1, 2, 5};
    const int decade = (k < 0 ? k - 2 : k) / 3;
    const double power = pow(10, abs(decade)), digit = digits[k - 3 * decade];
    return decade < 0 ? digit / power : digit * power;
}

/* Number of the last level that is not above `value`, or of the first one that is not below it. */
static int level_below(double value)
{
    int k = 3 * (int)floor(log10(value)) - 1;
    while (level(k + 1) <= value * (1 + 1e-9)) k++;
    return k;
}

static int level_above(double value)
{
    const int k = level_below(value);
    return level(k) >= value * (1 - 1e-9) ? k : k + 1;
}

int lh_scale_ticks(const lh_scale *scale, double ticks[LH_TICKS])
{
    int n = 0;
    if (scale->log) {
        const int first = level_above(scale->low), last = level_below(scale->high);
        const int decades = (last - first) / 3 + 1, by = last - first < LH_TICKS - 1 ? 1 : 3 * (1 + decades / LH_TICKS);
        for (int k = by > 1 ? first + (3 - first % 3) % 3 : first; k <= last && n < LH_TICKS; k += by)
            ticks[n++] = level(k);
        return n;
    }
    const double step = lh_round_step((scale->high - scale->low) / 5);
    for (double k = ceil(scale->low / step - 1e-9); k * step <= scale->high + 1e-9 * step && n < LH_TICKS; k++)
        ticks[n++] = k * step;
    return n;
}

/* ---- ranges of values ---- */

static void add_range(lh_axis *axis, double low, double high)
{
    if (axis->count == LH_RANGES) axis->count--; /* the widest comes last: it must be there */
    axis->ranges[axis->count].low = low;
    axis->ranges[axis->count++].high = high;
}

/* From decades to higher levels, at least a decade apart. */
static void add_logarithmic(lh_axis *axis, double low, double high)
{
    const int first = level_below(low), from = first - (first % 3 + 3) % 3, last = level_above(high);
    const int to = last < from + 3 ? from + 3 : last;
    for (int wide = 3; from + wide <= to; wide++)
        for (int k = from; k + wide <= to; k += 3) add_range(axis, level(k), level(k + wide));
}

/* From 0 to values with one or two digits, within two decades of the largest. */
static void add_from_zero(lh_axis *axis, double high)
{
    static const double ends[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
    const int decade = (int)floor(log10(high));
    for (int d = decade - 2; d <= decade + 1; d++)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            const double end = d < 0 ? ends[i] / pow(10, -d) : ends[i] * pow(10, d);
            add_range(axis, 0, end);
            if (end >= high * (1 - 1e-9)) return;
        }
}

/* Round ends around all values, and around halves of them. */
static void add_around_zero(lh_axis *axis, double low, double high)
{
    enum { HALVES = 6 };
    for (int k = HALVES; k >= 0; k--) {
        const double part = 1.0 / (1 << k), step = lh_round_step((high - low) * part / 5);
        add_range(axis, step * floor(low * part / step), step * ceil(high * part / step - 1e-9));
    }
}

void lh_axis_init(lh_axis *axis, const lh_figure *f, const lh_span *shown, const lh_span *all)
{
    static const double LONGEST = 1e6; /* of a logarithmic axis: smaller values lie at its end */
    const int curves = f->view == LH_VIEW_CURVES, share = strstr(f->unit, "share of") && f->better > 0;
    const double least = curves ? shown->least : shown->low;
    *axis = (lh_axis){0};
    if (!(all->low <= all->high) || !isfinite(all->high - all->low)) {
        add_range(axis, 0, 1);
        return;
    }
    axis->log = f->view != LH_VIEW_BARS && shown->low >= 0 && least > 0 && shown->high / least > LOG_SPAN && !share &&
                all->low >= 0;
    if (axis->log)
        add_logarithmic(axis, fmax(all->least, all->high / LONGEST), all->high);
    else if (all->low >= 0)
        add_from_zero(axis, all->high > 0 ? all->high : 1);
    else
        add_around_zero(axis, all->low, fmax(all->high, 0));
}

int lh_axis_range(const lh_axis *axis, const lh_span *shown)
{
    int r = 0;
    const double low = axis->log ? fmin(shown->least, shown->high) : shown->low;
    while (r < axis->count - 1 &&
           (axis->ranges[r].low > low * (1 + 1e-6) || axis->ranges[r].high < shown->high * (1 - 1e-6)))
        r++;
    return r;
}

/* ---- styles of series ---- */

static const char *const references[] = {"oracle", "random", "full", "oracle-adaptive"};
enum { REFERENCES = sizeof references / sizeof *references, RAMP_STEPS = 16 };

int lh_dim_is_policies(const lh_figure_dim *dim)
{
    return dim->labels && (strcmp(dim->name, "policy") == 0 || strcmp(dim->name, "other policy") == 0);
}

static int reference(const char *label)
{
    for (int r = 0; r < REFERENCES; r++)
        if (strcmp(references[r], label) == 0) return r;
    return -1;
}

lh_status lh_palette_add(lh_palette *palette, const lh_figure *figure)
{
    for (int d = 0; d < figure->dim_count; d++) {
        const lh_figure_dim *dim = &figure->dims[d];
        for (int64_t i = 0; lh_dim_is_policies(dim) && i < dim->count; i++) {
            int64_t at = 0;
            while (at < palette->count && strcmp(palette->policies[at], dim->labels[i]) != 0) at++;
            if (at < palette->count) continue;
            LH_TRY(lh_realloc(&palette->policies, palette->count + 1, sizeof *palette->policies));
            palette->policies[palette->count++] = dim->labels[i];
        }
    }
    return LH_OK;
}

void lh_palette_clear(lh_palette *palette)
{
    lh_free((void *)(uintptr_t)palette->policies);
    *palette = (lh_palette){0};
}

int64_t lh_series_style(const lh_palette *palette, const lh_figure_dim *dim, int64_t i, char out[LH_STYLE_CLASS])
{
    int64_t number = i;
    if (!dim) {
        number = 0;
    } else if (!lh_dim_is_policies(dim)) {
        if (!dim->labels && dim->count > LH_COLOURS) number = LH_RAMP + i * (RAMP_STEPS - 1) / (dim->count - 1);
    } else if ((number = -1 - reference(dim->labels[i])) == 0) {
        for (int64_t p = 0; p < palette->count && strcmp(palette->policies[p], dim->labels[i]) != 0; p++)
            number += reference(palette->policies[p]) < 0;
    }
    if (number < 0)
        snprintf(out, LH_STYLE_CLASS, "c-%s", references[-1 - number]);
    else if (number >= LH_RAMP)
        snprintf(out, LH_STYLE_CLASS, "r%d", (int)(number - LH_RAMP));
    else
        snprintf(out, LH_STYLE_CLASS, "c%d d%d", (int)(number % LH_COLOURS), (int)(number / LH_COLOURS % 4));
    return number;
}
