/* Similarity of the keep sets of two policies: the Jaccard index. The oracle is one of the policies. */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "overlap",
     .title = "Overlap of keep sets",
     .about =
         "Jaccard index of what two policies keep: entries that both keep over entries that either keeps, as a mean "
         "over the KV heads of a layer. The oracle ranks by the attention of the reference rows themselves.",
     .unit = "share of 1",
     .source = "RoCo, arXiv 2402.06262, figure 2",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_OTHER,
     .y = LH_AXIS_POLICY,
     .axes = {LH_AXIS_POLICY, LH_AXIS_OTHER, LH_AXIS_BUDGET, LH_AXIS_LAYER}},
    {0}};

/* Numbers of entries of a head that both policies keep, and that either keeps, by budget. */
typedef struct counts {
    int64_t both[LH_STUDY_BUDGETS], either[LH_STUDY_BUDGETS];
} counts;

static void count(const lh_layer_facts *l, const uint32_t *a, const uint32_t *b, counts *c)
{
    *c = (counts){0};
    for (int64_t j = 0; j < l->tokens; j++) {
        for (uint32_t bits = a[j] & b[j]; bits; bits &= bits - 1) c->both[__builtin_ctz(bits)]++;
        for (uint32_t bits = a[j] | b[j]; bits; bits &= bits - 1) c->either[__builtin_ctz(bits)]++;
    }
}

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const lh_study *s = l->study;
    const int64_t pairs = s->policy_count * s->policy_count;
#pragma omp parallel for schedule(dynamic)
    for (int64_t n = 0; n < pairs; n++)
        for (int64_t g = 0; g < s->kv_heads; g++) {
            const int64_t p = n / s->policy_count, q = n % s->policy_count;
            counts c;
            count(l, l->kept + (p * s->kv_heads + g) * l->tokens, l->kept + (q * s->kv_heads + g) * l->tokens, &c);
            for (int64_t b = 0; b < s->budget_count; b++)
                out[0][lh_figure_at(s, figures, (const int64_t[]){p, q, b, l->layer})] +=
                    c.either[b] ? (double)c.both[b] / (double)(c.either[b] * s->kv_heads) : 0;
        }
    return LH_OK;
}

const lh_analysis lh_analysis_overlap = {
    .name = "overlap", .summary = "Jaccard index of keep sets, oracle included", .figures = figures, .layer = layer};
