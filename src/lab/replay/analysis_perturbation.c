/* What an eviction changes in the output of attention: o - o^ by query head, before and after the output projection. */
#include <math.h>

#include "lab/replay/analysis.h"

#define BY_HEAD                                                                     \
    .view = LH_VIEW_CURVES, .x = LH_AXIS_BUDGET, .y = LH_AXIS_POLICY, .better = -1, \
    .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_HEAD}

static const lh_analysis_figure figures[] = {
    {.name = "perturbation-l2",
     .title = "Output perturbation, L2",
     .about = "Norm of the difference that the eviction makes to the output of a query head, over the norm of that "
              "output, as a mean over the reference rows. Less is better.",
     .unit = "share of the output's norm",
     .source = "CriticalKV, arXiv 2502.03805, figures 5 to 7",
     BY_HEAD},
    {.name = "perturbation-l1",
     .title = "Output perturbation, L1",
     .about = "The same in the L1 norm. Less is better.",
     .unit = "share of the output's norm",
     .source = "CriticalKV, arXiv 2502.03805, figures 5 to 7",
     BY_HEAD},
    {.name = "perturbation-projected",
     .title = "Output perturbation after the output projection, L1",
     .about = "L1 norm of the difference that the eviction makes to what a query head adds to the hidden state, as a "
              "mean over the reference rows. Less is better.",
     .unit = "L1 norm",
     .source = "CriticalKV, arXiv 2502.03805, equation 5, figures 5 to 7",
     BY_HEAD},
    {.name = "perturbation-squared",
     .title = "Square of the output perturbation after the output projection",
     .about =
         "The square of that L1 norm, as a mean over the reference rows: changes of different heads add up as their "
         "squares do. Less is better.",
     .unit = "square of the L1 norm",
     .source = "CriticalKV, arXiv 2502.03805, equation 5",
     BY_HEAD},
    {.name = "output-projected",
     .title = "Output after the output projection, L1",
     .about = "L1 norm of what a query head adds to the hidden state with the full cache, as a mean over the reference "
              "rows.",
     .unit = "L1 norm",
     .source = "CriticalKV, arXiv 2502.03805, equation 5",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_HEAD,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {0}};

enum { L2, L1, PROJECTED, SQUARED, OUTPUT }; /* figures */

static lh_status head(const lh_head_facts *h, double *const *out)
{
    const lh_study *s = h->layer->study;
    for (int64_t i = 0; i < s->group; i++) {
        double sum = 0;
        for (int64_t r = i * h->rows; r < (i + 1) * h->rows && h->output_l1; r++) sum += (double)h->output_l1[r];
        out[OUTPUT][lh_figure_at(s, &figures[OUTPUT], (const int64_t[]){h->layer->layer, h->head * s->group + i})] +=
            h->output_l1 ? sum / (double)h->rows : (double)NAN;
    }
    return LH_OK;
}

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    const lh_study *s = h->layer->study;
    for (int64_t i = 0; i < s->group; i++) {
        double l1 = 0, l2 = 0, projected = 0, squared = 0;
        for (int64_t r = i * h->rows; r < (i + 1) * h->rows; r++) {
            double d1 = 0, d2 = 0, o1 = 0, o2 = 0;
            for (int64_t x = r * s->head_dim; x < (r + 1) * s->head_dim; x++) {
                const double d = (double)o->delta[x], y = (double)h->output[x];
                d1 += fabs(d), d2 += d * d, o1 += fabs(y), o2 += y * y;
            }
            l1 += o1 > 0 ? d1 / o1 : 0;
            l2 += o2 > 0 ? sqrt(d2 / o2) : 0;
            if (!o->projected_l1) continue;
            projected += (double)o->projected_l1[r];
            squared += (double)o->projected_l1[r] * (double)o->projected_l1[r];
        }
        const int64_t at =
            lh_figure_at(s, figures, (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head * s->group + i});
        out[L2][at] += l2 / (double)h->rows;
        out[L1][at] += l1 / (double)h->rows;
        out[PROJECTED][at] += o->projected_l1 ? projected / (double)h->rows : (double)NAN;
        out[SQUARED][at] += o->projected_l1 ? squared / (double)h->rows : (double)NAN;
    }
    return LH_OK;
}

const lh_analysis lh_analysis_perturbation = {.name = "perturbation",
                                              .summary = "change of the output, L1 and L2, and projected",
                                              .figures = figures,
                                              .head = head,
                                              .outcome = outcome};
