/* How well a few rows at the end of the prompt represent all rows: NaCl's proxy tokens, and the windows of other
 * policies. Scores rank entries, and sinks dominate the correlation of scores: the correlation of ranks says more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lab/replay/analysis.h"

#define BY_PROXIES                                                                                       \
    .unit = "correlation", .source = "NaCl, arXiv 2408.03675, section 5.1, the proxy tokens hypothesis", \
    .view = LH_VIEW_HEATMAP, .x = LH_AXIS_PROXIES, .y = LH_AXIS_LAYER, .better = 1,                      \
    .axes = {LH_AXIS_PROXIES, LH_AXIS_LAYER, LH_AXIS_KV_HEAD}

static const lh_analysis_figure figures[] = {
    {.name = "proxies",
     .title = "Attention of proxies and of all rows",
     .about = "Pearson correlation of the attention that the last rows of the prompt, the proxies, give to the entries "
              "before them with what all rows give to these, both added up over the rows, of a KV head.",
     BY_PROXIES},
    {.name = "proxies-ranks",
     .title = "Ranks by the attention of proxies and of all rows",
     .about = "Spearman correlation of the same: of the ranks that entries have by it.",
     BY_PROXIES},
    {0}};

typedef struct ranked {
    float score;
    int64_t at;
} ranked;

/* NaN, of a damaged trace, last. */
static int ascending(const void *a, const void *b)
{
    const float x = ((const ranked *)a)->score, y = ((const ranked *)b)->score;
    return isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : (x > y) - (x < y);
}

static void sort(const float *scores, int64_t count, ranked *out)
{
    for (int64_t j = 0; j < count; j++) out[j] = (ranked){scores[j], j};
    qsort(out, (size_t)count, sizeof *out, ascending);
}

/* ranks[j] of the entries j < n among each other; equal scores share their mean rank. */
static void rank(const ranked *sorted, int64_t count, int64_t n, double *ranks)
{
    for (int64_t first = 0, end, before = 0; first < count; first = end) {
        int64_t same = sorted[first].at < n;
        for (end = first + 1; end < count && sorted[end].score == sorted[first].score; end++)
            same += sorted[end].at < n;
        for (int64_t k = first; k < end; k++)
            if (sorted[k].at < n) ranks[sorted[k].at] = (double)before + 0.5 * (double)(same - 1);
        before += same;
    }
}

static double correlate(const double *x, const double *y, int64_t n)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (int64_t j = 0; j < n; j++) mean_x += x[j] / (double)n, mean_y += y[j] / (double)n;
    for (int64_t j = 0; j < n; j++) {
        const double a = x[j] - mean_x, b = y[j] - mean_y;
        xx += a * a, yy += b * b, xy += a * b;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

/* Buffers of a KV head, each [tokens]. */
typedef struct buffers {
    ranked *all, *proxies;
    double *x, *y;
} buffers;

/* The correlations over the first n entries. */
static void compare(const lh_layer_facts *l, const float *all, const float *proxies, const buffers *to, int64_t n,
                    double found[2])
{
    for (int64_t j = 0; j < n; j++) to->x[j] = (double)all[j], to->y[j] = (double)proxies[j];
    found[0] = correlate(to->x, to->y, n);
    sort(proxies, n, to->proxies);
    rank(to->all, l->tokens, n, to->x);
    rank(to->proxies, n, n, to->y);
    found[1] = correlate(to->x, to->y, n);
}

/* proxies: what each number of them gives, [LH_STUDY_PROXIES, kv_heads, tokens]. */
static lh_status compare_head(const lh_layer_facts *l, int64_t g, const float *proxies, double *const *out)
{
    const lh_study *s = l->study;
    const int64_t tokens = l->tokens;
    const float *all = l->recorded->sums ? l->recorded->sums + g * tokens : NULL;
    lh_status st = LH_OK;
    buffers to = {0};
    LH_TRY_DONE(lh_calloc(&to.all, tokens, sizeof *to.all));
    LH_TRY_DONE(lh_calloc(&to.proxies, tokens, sizeof *to.proxies));
    LH_TRY_DONE(lh_calloc(&to.x, tokens, sizeof *to.x));
    LH_TRY_DONE(lh_calloc(&to.y, tokens, sizeof *to.y));
    if (all) sort(all, tokens, to.all);
    for (int64_t w = 0; w < LH_STUDY_PROXIES; w++) {
        const int64_t n = tokens - (int64_t)lh_study_proxies[w];
        double found[2] = {(double)NAN, (double)NAN};
        if (all && tokens - n <= lh_layer_observable(l) && n > 1)
            compare(l, all, proxies + (w * s->kv_heads + g) * tokens, &to, n, found);
        for (int f = 0; f < 2; f++) out[f][lh_figure_at(s, &figures[f], (const int64_t[]){w, l->layer, g})] += found[f];
    }
done:
    lh_free(to.all);
    lh_free(to.proxies);
    lh_free(to.x);
    lh_free(to.y);
    return st;
}

/* The sums of the last rows, more of them from one number of proxies to the next. */
static lh_status sum_proxies(const lh_layer_facts *l, float *to)
{
    const int64_t entries = l->study->kv_heads * l->tokens, most = lh_layer_observable(l);
    lh_observed_rows rows = {.first = l->tokens};
    for (int64_t w = 0; w < LH_STUDY_PROXIES && (int64_t)lh_study_proxies[w] <= most; w++) {
        rows.end = rows.first;
        rows.first = l->tokens - (int64_t)lh_study_proxies[w];
        if (w) memcpy(to + w * entries, to + (w - 1) * entries, (size_t)entries * sizeof *to);
        LH_TRY(lh_layer_observe(l, &rows, to + w * entries));
    }
    return LH_OK;
}

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    lh_status st = LH_OK, failed = LH_OK;
    float *proxies = NULL;
    LH_TRY_DONE(lh_calloc(&proxies, LH_STUDY_PROXIES * l->study->kv_heads * l->tokens, sizeof *proxies));
    LH_TRY_DONE(sum_proxies(l, proxies));
#pragma omp parallel for schedule(dynamic)
    for (int64_t g = 0; g < l->study->kv_heads; g++) {
        const lh_status one = compare_head(l, g, proxies, out);
        if (one != LH_OK)
#pragma omp atomic write
            failed = one;
    }
    LH_TRY_DONE(failed);
done:
    lh_free(proxies);
    return st;
}

const lh_analysis lh_analysis_proxies = {.name = "proxies",
                                         .summary = "correlation of the attention of a few rows with that of all",
                                         .figures = figures,
                                         .layer = layer};
