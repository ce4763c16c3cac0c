/* How well the kept entries stand for the values of all: the attention-weighted values of all reference rows of a query
 * head as one matrix. Rows count by their size; perturbation-l2 is the mean over rows, each by itself. */
#include <math.h>

#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "values",
     .title = "Reconstruction error of the weighted values",
     .about = "Frobenius norm of A V - A' V' over that of A V, over all reference rows of a query head: A their "
              "attention, A' what is left of it after the eviction, adding up to 1 again. Less is better.",
     .unit = "share of the norm",
     .source = "CriticalKV, arXiv 2502.03805, equations 2 to 5 without the output projection",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = -1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {0}};

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    const lh_study *s = h->layer->study;
    const int64_t values = h->rows * s->head_dim;
    for (int64_t i = 0; i < s->group; i++) {
        double changed = 0, all = 0;
        for (int64_t x = i * values; x < (i + 1) * values; x++) {
            changed += (double)o->delta[x] * (double)o->delta[x];
            all += (double)h->output[x] * (double)h->output[x];
        }
        out[0][lh_figure_at(s, figures,
                            (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head * s->group + i})] +=
            all > 0 ? sqrt(changed / all) : 0;
    }
    return LH_OK;
}

const lh_analysis lh_analysis_values = {
    .name = "values", .summary = "reconstruction error of the weighted values", .figures = figures, .outcome = outcome};
