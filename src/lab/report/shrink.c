/* shrink.c - large figures become small ones by averages of neighbours: of positions, layers or heads, never of what
 * has labels, such as policies, or of budgets. */
#include <math.h>
#include <string.h>

#include "lab/report/report_impl.h"

/* Points and values of dimension `d` in bins of `wide`; the other dimensions stay. */
static lh_status bin_dim(const lh_figure *figure, int d, int64_t wide, lh_figures *out)
{
    lh_status st = LH_OK;
    const lh_figure_dim *from = &figure->dims[d];
    lh_figure small = *figure;
    lh_figure_dim *to = &small.dims[d];
    float *values = NULL;
    double *points = NULL;
    int64_t before = 1, after = 1;
    for (int k = 0; k < d; k++) before *= figure->dims[k].count;
    for (int k = d + 1; k < figure->dim_count; k++) after *= figure->dims[k].count;
    to->count = (from->count + wide - 1) / wide;
    LH_TRY_DONE(lh_calloc(&values, before * to->count * after, sizeof *values));
    LH_TRY_DONE(lh_calloc(&points, to->count, sizeof *points));
    for (int64_t i = 0; i < to->count; i++) points[i] = from->values ? from->values[i * wide] : (double)(i * wide);
    for (int64_t b = 0; b < before; b++)
        for (int64_t i = 0; i < to->count; i++)
            for (int64_t a = 0; a < after; a++) {
                double sum = 0, found = 0;
                for (int64_t k = i * wide; k < (i + 1) * wide && k < from->count; k++) {
                    const float v = figure->values[(b * from->count + k) * after + a];
                    if (!isfinite(v)) continue;
                    sum += (double)v;
                    found++;
                }
                values[(b * to->count + i) * after + a] = found ? (float)(sum / found) : NAN;
            }
    to->labels = NULL;
    to->values = points;
    small.values = values;
    LH_TRY_DONE(lh_figures_append(out, &small));
done:
    lh_free(values);
    lh_free(points);
    return st;
}

/* The longest dimension whose points may be averaged; -1: none. */
static int longest_dim(const lh_figure *figure)
{
    int longest = -1;
    for (int d = 0; d < figure->dim_count; d++) {
        const lh_figure_dim *dim = &figure->dims[d];
        if (dim->labels || dim->count < 2 || strcmp(dim->name, "budget") == 0) continue;
        if (longest < 0 || dim->count > figure->dims[longest].count) longest = d;
    }
    return longest;
}

lh_status lh_figure_shrink(const lh_figure *figure, int64_t max_values, lh_figures *out)
{
    lh_status st = LH_OK;
    lh_figures steps = {0};
    const lh_figure *now = figure;
    while (lh_figure_count(now) > max_values) {
        const int longest = longest_dim(now);
        if (longest < 0) break;
        const int64_t wide = (lh_figure_count(now) + max_values - 1) / max_values, n = now->dims[longest].count;
        lh_figures next = {0};
        LH_TRY_DONE(bin_dim(now, longest, wide < n / 16 ? wide : 2, &next));
        lh_figures_clear(&steps);
        steps = next;
        now = &steps.list[0];
    }
    LH_TRY_DONE(lh_figures_append(out, now));
done:
    lh_figures_clear(&steps);
    return st;
}
