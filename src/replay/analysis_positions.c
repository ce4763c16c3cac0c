/* Where in the prompt the kept entries lie. */
#include "replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "positions",
     .title = "Where kept entries lie",
     .about =
         "Share of the entries of a stretch of the prompt, a 64th of it, that is kept, as a mean over the KV heads "
         "of a layer.",
     .unit = "share of 1",
     .source = "NaCl, arXiv 2408.03675, figure 5",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_BIN,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_BIN}},
    {0}};

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const lh_study *s = l->study;
    for (int64_t p = 0; p < s->policy_count; p++)
        for (int64_t n = 0; n < s->kv_heads * l->tokens; n++) {
            const int64_t bin = lh_layer_bin(l, n % l->tokens);
            for (uint32_t bits = l->kept[p * s->kv_heads * l->tokens + n]; bits; bits &= bits - 1)
                out[0][lh_figure_at(s, figures, (const int64_t[]){p, __builtin_ctz(bits), l->layer, bin})] +=
                    1.0 / (double)(lh_layer_bin_size(l, bin) * s->kv_heads);
        }
    return LH_OK;
}

const lh_analysis lh_analysis_positions = {
    .name = "positions", .summary = "where in the prompt kept entries lie", .figures = figures, .layer = layer};
