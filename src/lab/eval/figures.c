#include "lab/eval/figures.h"

#include <math.h>

void lh_figures_put(lh_cell *first, const lh_eval_figures *f)
{
    first[0].number = f->entries_kept;
    first[1].number = f->kv_bytes;
    first[2].number = f->filled;
    first[3].value = f->evict_s;
    first[4].value = f->decode_s;
}

void lh_figures_add(lh_figure_sums *sums, const lh_cell *first)
{
    sums->n++;
    sums->of[0] += (double)first[0].number;
    sums->of[1] += (double)first[1].number;
    sums->of[2] += (double)first[2].number;
    sums->of[3] += first[3].value;
    sums->of[4] += first[4].value;
}

void lh_mean_figures_put(lh_cell *first, const lh_mean_figures *of)
{
    const double n = of->sums->n ? (double)of->sums->n : (double)NAN, *sum = of->sums->of;
    lh_confidence_interval(of->mean, of->sums->n, &first[0].value, &first[1].value);
    lh_figures_put(first + 2, &(lh_eval_figures){.entries_kept = llround(sum[0] / n),
                                                 .kv_bytes = llround(sum[1] / n),
                                                 .filled = llround(sum[2] / n),
                                                 .evict_s = sum[3] / n,
                                                 .decode_s = sum[4] / n});
    first[2 + LH_FIGURES].text = of->model;
}

void lh_confidence_interval(double mean, int64_t n, double *low, double *high)
{
    static const double z = 1.959963984540054;
    const double zz = z * z / (double)n;
    const double centre = (mean + zz / 2) / (1 + zz);
    const double half = z / (1 + zz) * sqrt(mean * (1 - mean) / (double)n + zz / (4 * (double)n));
    *low = n > 0 ? fmax(centre - half, 0) : (double)NAN;
    *high = n > 0 ? fmin(centre + half, 1) : (double)NAN;
}
