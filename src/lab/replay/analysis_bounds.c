/* Upper bounds of the perturbation: AdaKV's by the attention that is lost (arXiv 2407.11550v1, theorem 2), CriticalKV's
 * by what lost values weigh (arXiv 2502.03805, theorem 3.3). Both must lie above perturbation-projected. */
#include <math.h>

#include "lab/replay/analysis.h"

#define BY_HEAD                                                                                        \
    .unit = "L1 norm", .view = LH_VIEW_CURVES, .x = LH_AXIS_BUDGET, .y = LH_AXIS_POLICY, .better = -1, \
    .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_HEAD}

static const lh_analysis_figure figures[] = {
    {.name = "bound-loss",
     .title = "Bound of the perturbation by the lost attention (AdaKV)",
     .about = "2 C (1 - sigma) of a query head, with its kept attention sigma and the largest norm C of its projected "
              "values, as a mean over the reference rows. It is above the projected perturbation.",
     .source = "AdaKV, arXiv 2407.11550v1, theorem 2",
     BY_HEAD},
    {.name = "bound-values",
     .title = "Bound of the perturbation by the lost values (CriticalKV)",
     .about =
         "theta = c - (2 - 1 / sigma) sum of a |V W_O| over the kept entries, c the sum over all of them, as a mean "
         "over the reference rows that keep anything. It is above the projected perturbation.",
     .source = "CriticalKV, arXiv 2502.03805, theorem 3.3",
     BY_HEAD},
    {0}};

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    const lh_study *s = h->layer->study;
    for (int64_t i = 0; i < s->group; i++) {
        double sums[2] = {0, 0}, bounds[2] = {(double)NAN, (double)NAN};
        for (int64_t r = i * h->rows; r < (i + 1) * h->rows; r++) {
            const double sigma = (double)o->mass[r], lost = (double)o->lost[r];
            if (h->largest) { /* c is the sum of both norms */
                bounds[0] = 2 * (double)h->largest[i] * lost;
                bounds[1] = (double)o->lost_norm[r] + (sigma > 0 ? lost / sigma * (double)o->kept_norm[r] : 0);
            }
            sums[0] += bounds[0], sums[1] += bounds[1];
        }
        const int64_t at =
            lh_figure_at(s, figures, (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head * s->group + i});
        for (int b = 0; b < 2; b++) out[b][at] += sums[b] / (double)h->rows;
    }
    return LH_OK;
}

const lh_analysis lh_analysis_bounds = {.name = "bounds",
                                        .summary = "upper bounds of the perturbation of AdaKV and CriticalKV",
                                        .figures = figures,
                                        .outcome = outcome};
