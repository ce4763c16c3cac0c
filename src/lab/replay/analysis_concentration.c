/* Concentration of attention, independent of the policy: entries that hold most of it, its entropy, and the number of
 * negligible weights. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "concentration",
     .title = "Entries that hold most of the attention",
     .about =
         "The fewest entries of the prompt that hold so much of the attention that a reference row of a query head "
         "gives to the prompt, as a mean over the rows.",
     .unit = "entries",
     .source = "AdaKV, arXiv 2407.11550v1, figures 2 and 6",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_HEAD,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_SHARE, LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {.name = "entropy",
     .title = "Entropy of attention",
     .about = "Entropy of the attention that a reference row of a query head gives to the prompt, as a mean over the "
              "rows.",
     .unit = "nats",
     .source = "AhaKV, arXiv 2506.03762, equation 6",
     .view = LH_VIEW_HEATMAP,
     .x = LH_AXIS_HEAD,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {.name = "sparsity",
     .title = "Weights below a threshold",
     .about = "Share of the attention weights of a query head below a threshold.",
     .unit = "share of 1",
     .source = "NaCl, arXiv 2408.03675, figure 6",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_THRESHOLD,
     .y = LH_AXIS_LAYER,
     .axes = {LH_AXIS_THRESHOLD, LH_AXIS_LAYER, LH_AXIS_HEAD}},
    {0}};

/* NaN, of a damaged trace, last. */
static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : (x < y) - (x > y);
}

typedef struct row_figures {
    double needed[LH_STUDY_SHARES], below[LH_STUDY_THRESHOLDS], entropy;
} row_figures;

/* sorted: buffer for the weights of a row. Weights below one percent of their mean sum to less than one percent, which
 * even the largest share excludes: only larger weights are sorted. */
static void measure(const float *weights, int64_t n, float *sorted, row_figures *out)
{
    double sum = 0, held = 0;
    int64_t large = 0;
    int next = 0;
    *out = (row_figures){.entropy = 0};
    for (int64_t j = 0; j < n; j++) sum += (double)weights[j];
    for (int64_t j = 0; j < n && sum > 0; j++) {
        const double a = (double)weights[j] / sum;
        if (a > 0) out->entropy -= a * log(a);
        for (int t = 0; t < LH_STUDY_THRESHOLDS; t++) out->below[t] += a < lh_study_thresholds[t];
        if (a * (double)n >= 1 - lh_study_shares[LH_STUDY_SHARES - 1]) sorted[large++] = weights[j];
    }
    qsort(sorted, (size_t)large, sizeof *sorted, descending);
    for (int64_t j = 0; j < large; j++) {
        held += (double)sorted[j] / sum;
        for (; next < LH_STUDY_SHARES && held >= lh_study_shares[next]; next++) out->needed[next] = (double)(j + 1);
    }
    for (; next < LH_STUDY_SHARES; next++) out->needed[next] = (double)n;
}

static void add_row(const lh_head_facts *h, int64_t head, const row_figures *row, double *const *out)
{
    const lh_study *s = h->layer->study;
    const int64_t layer = h->layer->layer;
    const double rows = (double)h->rows;
    for (int64_t x = 0; x < LH_STUDY_SHARES; x++)
        out[0][lh_figure_at(s, &figures[0], (const int64_t[]){x, layer, head, 0})] += row->needed[x] / rows;
    out[1][lh_figure_at(s, &figures[1], (const int64_t[]){layer, head, 0, 0})] += row->entropy / rows;
    for (int64_t t = 0; t < LH_STUDY_THRESHOLDS; t++)
        out[2][lh_figure_at(s, &figures[2], (const int64_t[]){t, layer, head, 0})] +=
            row->below[t] / (double)h->layer->tokens / rows;
}

static lh_status head(const lh_head_facts *h, double *const *out)
{
    const int64_t tokens = h->layer->tokens, group = h->layer->study->group;
    float *sorted = NULL;
    row_figures *rows = NULL;
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_calloc(&rows, h->n, sizeof *rows));
    LH_TRY_DONE(lh_calloc(&sorted, h->n * tokens, sizeof *sorted));
#pragma omp parallel for schedule(dynamic)
    for (int64_t r = 0; r < h->n; r++) measure(h->weights + r * tokens, tokens, sorted + r * tokens, &rows[r]);
    for (int64_t r = 0; r < h->n; r++) add_row(h, h->head * group + r / h->rows, &rows[r], out);
done:
    lh_free(rows);
    lh_free(sorted);
    return st;
}

const lh_analysis lh_analysis_concentration = {.name = "concentration",
                                               .summary = "entries that hold most of the attention, entropy, sparsity",
                                               .figures = figures,
                                               .head = head};
