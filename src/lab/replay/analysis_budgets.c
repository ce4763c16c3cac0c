/* How a policy divides entries among layers and heads. */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "budgets",
     .title = "Entries kept by each head",
     .about = "Entries that a KV head keeps of the prompt: the same for all where budgets are uniform.",
     .unit = "entries",
     .source = "AdaKV, arXiv 2407.11550, figure 2",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_KV_HEAD,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_KV_HEAD}},
    {0}};

static lh_status outcome(const lh_head_facts *h, const lh_outcome *o, double *const *out)
{
    out[0][lh_figure_at(h->layer->study, figures, (const int64_t[]){o->policy, o->budget, h->layer->layer, h->head})] +=
        (double)o->kept;
    return LH_OK;
}

const lh_analysis lh_analysis_budgets = {
    .name = "budgets", .summary = "entries kept by layer and head", .figures = figures, .outcome = outcome};
