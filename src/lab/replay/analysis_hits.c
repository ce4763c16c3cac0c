/* The kept share of the entries with the most attention of the reference rows: over budgets, the miss-ratio curve of a
 * cache. */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "hits",
     .title = "Hit rate of the most attended entries",
     .about =
         "Share of the 64 entries that a reference row attends to most that is kept, over rows and the query heads "
         "of a KV head. More is better.",
     .unit = "share of 1",
     .source = "",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = 1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_KV_HEAD}},
    {0}};

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    out[0][lh_figure_at(h->layer->study, figures, (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head})] +=
        o->hits;
    return LH_OK;
}

const lh_analysis lh_analysis_hits = {
    .name = "hits", .summary = "hit rate of the most attended entries", .figures = figures, .outcome = outcome};
