/* Where in the prompt the kept entries lie, of a layer and of each of its heads. */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "positions",
     .title = "Where kept entries lie",
     .about =
         "Share of the entries of a stretch of the prompt, a 64th of it, that is kept, as a mean over the KV heads "
         "of a layer.",
     .unit = "share of 1",
     .source = "AhaKV, arXiv 2506.03762, figures 2c, 5 and 6; NaCl, arXiv 2408.03675, figure 10",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_BIN,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_BIN}},
    {.name = "positions-heads",
     .title = "Where kept entries of each head lie",
     .about = "Share of the entries of a stretch of the prompt, a 64th of it, that a KV head keeps. Choose a layer.",
     .unit = "share of 1",
     .source = "NaCl, arXiv 2408.03675, figures 2 and 10",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_BIN,
     .y = LH_AXIS_KV_HEAD,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_KV_HEAD, LH_AXIS_BIN}},
    {0}};

/* Entries of each stretch that a head keeps, by budget. */
typedef struct counts {
    int64_t kept[LH_STUDY_BINS][LH_STUDY_BUDGETS];
} counts;

static void count(const lh_layer_facts *l, const uint32_t *kept, counts *c)
{
    *c = (counts){0};
    for (int64_t j = 0; j < l->tokens; j++) {
        int64_t *at = c->kept[lh_layer_bin(l, j)];
        for (uint32_t bits = kept[j]; bits; bits &= bits - 1) at[__builtin_ctz(bits)]++;
    }
}

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const lh_study *s = l->study;
#pragma omp parallel for schedule(dynamic)
    for (int64_t p = 0; p < s->policy_count; p++)
        for (int64_t g = 0; g < s->kv_heads; g++) {
            counts c;
            count(l, l->kept + (p * s->kv_heads + g) * l->tokens, &c);
            for (int64_t b = 0; b < s->budget_count; b++)
                for (int64_t bin = 0; bin < LH_STUDY_BINS; bin++) {
                    const int64_t size = lh_layer_bin_size(l, bin);
                    const double share = size ? (double)c.kept[bin][b] / (double)size : 0;
                    out[0][lh_figure_at(s, &figures[0], (const int64_t[]){p, b, l->layer, bin})] +=
                        share / (double)s->kv_heads;
                    out[1][lh_figure_at(s, &figures[1], (const int64_t[]){p, b, l->layer, g, bin})] += share;
                }
        }
    return LH_OK;
}

const lh_analysis lh_analysis_positions = {
    .name = "positions", .summary = "where in the prompt kept entries lie", .figures = figures, .layer = layer};
