/* The share of the attention of the reference rows that stays, for every query head: the mass sigma that the bounds of
 * AdaKV and CriticalKV are made of; and the share of heads that keep more than half of it, which CriticalKV's second
 * stage presumes (arXiv 2502.03805, assumption 3.4). */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "mass",
     .title = "Attention kept",
     .about = "Share of the attention of the reference rows that falls on entries that are kept. More is better.",
     .unit = "share of 1",
     .source = "AdaKV, arXiv 2407.11550, section 3.2",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = 1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {.name = "half-mass",
     .title = "Rows that keep more than half of their attention",
     .about = "Share of the reference rows of a query head whose kept attention is above one half: where CriticalKV's "
              "bound for its second stage holds.",
     .unit = "share of 1",
     .source = "CriticalKV, arXiv 2502.03805, assumption 3.4, figure 8",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = 1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {0}};

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    const lh_study *s = h->layer->study;
    for (int64_t i = 0; i < s->group; i++) {
        double mass = 0, half = 0;
        for (int64_t r = 0; r < h->rows; r++) {
            mass += (double)o->mass[i * h->rows + r];
            half += o->mass[i * h->rows + r] > 0.5f;
        }
        const int64_t at = lh_figure_at(
            s, &figures[0], (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head * s->group + i});
        out[0][at] += mass / (double)h->rows;
        out[1][at] += half / (double)h->rows;
    }
    return LH_OK;
}

const lh_analysis lh_analysis_mass = {
    .name = "mass", .summary = "attention kept, by head", .figures = figures, .outcome = outcome};
