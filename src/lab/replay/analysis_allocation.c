/* What adaptive head budgets can gain: AdaKV's bound of a layer's eviction loss when each KV head keeps its best
 * entries, and when the heads of the layer share the same number of entries, the best of all of them. Entries rank by
 * the attention of the reference rows, so that the second is never above the first (AdaKV, theorem 4). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "allocation",
     .title = "Bound of the eviction loss, uniform and adaptive head budgets",
     .about = "2 C times the attention that a layer loses, added up over its query heads, as a mean over the reference "
              "rows; C is the largest norm of its projected values. Uniform: each KV head keeps the entries that the "
              "reference rows attend to most; adaptive: the layer keeps as many, whichever head they belong to.",
     .unit = "L1 norm",
     .source = "AdaKV, arXiv 2407.11550v1, theorems 2 and 4, figure 3",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_LAYER,
     .y = LH_AXIS_ALLOCATION,
     .axes = {LH_AXIS_ALLOCATION, LH_AXIS_BUDGET, LH_AXIS_LAYER}},
    {.name = "allocation-ratio",
     .title = "Adaptive head budgets against uniform ones",
     .about = "The bound of the eviction loss under adaptive head budgets as a share of the one under uniform budgets.",
     .unit = "share of the uniform bound",
     .source = "AdaKV, arXiv 2407.11550v1, theorem 4, figure 3",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_BUDGET, LH_AXIS_LAYER}},
    {0}};

/* NaN, of a damaged trace, last. */
static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : (x > y) - (x < y);
}

/* What entries give up that are not among the best: lost[n] = sum of the n least. values: sorted here. */
static void sum_least(float *values, int64_t count, double *lost)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    lost[0] = 0;
    for (int64_t j = 0; j < count; j++) lost[j + 1] = lost[j] + (double)values[j];
}

static void put(const lh_layer_facts *l, int64_t budget, const double lost[LH_STUDY_ALLOCATIONS], double *const *out)
{
    for (int64_t a = 0; a < LH_STUDY_ALLOCATIONS; a++)
        out[0][lh_figure_at(l->study, &figures[0], (const int64_t[]){a, budget, l->layer})] += 2 * l->largest * lost[a];
    /* nothing is lost: neither is better */
    out[1][lh_figure_at(l->study, &figures[1], (const int64_t[]){budget, l->layer})] +=
        lost[0] > 0 ? lost[1] / lost[0] : 1;
}

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const lh_study *s = l->study;
    const int64_t tokens = l->tokens, entries = s->kv_heads * tokens;
    lh_status st = LH_OK;
    float *values = NULL;
    double *heads = NULL, *all = NULL; /* [kv_heads, tokens + 1], [entries + 1] */
    LH_TRY_DONE(lh_calloc(&values, entries, sizeof *values));
    LH_TRY_DONE(lh_calloc(&heads, entries + s->kv_heads, sizeof *heads));
    LH_TRY_DONE(lh_calloc(&all, entries + 1, sizeof *all));
    memcpy(values, l->reference, (size_t)entries * sizeof *values);
    for (int64_t g = 0; g < s->kv_heads; g++) sum_least(values + g * tokens, tokens, heads + g * (tokens + 1));
    sum_least(values, entries, all);
    for (int64_t b = 0; b < s->budget_count; b++) {
        double uniform = 0;
        int64_t evicted = 0;
        for (int64_t g = 0; g < s->kv_heads; g++) {
            const int64_t n = tokens - lh_layer_kept(l, b, g);
            uniform += heads[g * (tokens + 1) + n];
            evicted += n;
        }
        put(l, b, (const double[]){uniform, all[evicted]}, out);
    }
done:
    lh_free(values);
    lh_free(heads);
    lh_free(all);
    return st;
}

const lh_analysis lh_analysis_allocation = {.name = "allocation",
                                            .summary = "bound of the eviction loss, uniform and adaptive head budgets",
                                            .figures = figures,
                                            .layer = layer};
