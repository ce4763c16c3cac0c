/* The effect of AhaKV's step gain on scores: sums over all rows fall with the position; sums over the last rows do
 * not, but spread over more entries in longer prompts; the gain concentrates them again, on about as many entries as
 * are kept (arXiv 2506.03762, section 4.2). Without the value prior. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "gain",
     .title = "Scores over the position, without and with the step gain",
     .about =
         "Mean score of the entries of a 64th of the prompt over that of all entries: by the attention of all rows "
         "(H2O), and by that of the last 32 rows, without and with AhaKV's step gain, which goes by the budget; as a "
         "mean over the KV heads.",
     .unit = "times the mean score",
     .source = "AhaKV, arXiv 2506.03762, figure 2",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BIN,
     .y = LH_AXIS_SCORE,
     .axes = {LH_AXIS_SCORE, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_BIN}},
    {.name = "gain-spread",
     .title = "Entries over which a score spreads",
     .about =
         "The exponential of the entropy of a score over the entries of a KV head. AhaKV chooses the gain so that a "
         "row spreads over as many entries as are kept.",
     .unit = "entries",
     .source = "AhaKV, arXiv 2506.03762, equations 6 to 12",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_SCORE,
     .axes = {LH_AXIS_SCORE, LH_AXIS_BUDGET, LH_AXIS_LAYER, LH_AXIS_KV_HEAD}},
    {0}};

/* As lh_study_scores. */
enum { ALL_ROWS, LAST_ROWS, LAST_ROWS_GAIN, LAST = 32 };

/* Of the score of a KV head. */
typedef struct shape {
    double bins[LH_STUDY_BINS]; /* mean of a stretch over the mean of all entries */
    double spread;              /* exp of the entropy */
} shape;

static shape measure(const lh_layer_facts *l, const float *score)
{
    shape s = {.spread = 0};
    double sum = 0, entropy = 0;
    for (int64_t j = 0; j < l->tokens; j++) sum += (double)score[j];
    for (int64_t j = 0; j < l->tokens; j++) {
        const double share = (double)score[j] / sum;
        const int64_t bin = lh_layer_bin(l, j);
        s.bins[bin] += share * (double)l->tokens / (double)lh_layer_bin_size(l, bin);
        if (share > 0) entropy -= share * log(share);
    }
    s.spread = exp(entropy);
    return s;
}

/* A score at budgets [first, end); scores: [kv_heads, tokens], NULL: not recorded. */
typedef struct measured {
    int64_t kind, first, end;
    const float *scores;
} measured;

static void put(const lh_layer_facts *l, const measured *m, double *const *out)
{
    const lh_study *s = l->study;
    for (int64_t g = 0; g < s->kv_heads; g++) {
        shape found = {.spread = (double)NAN};
        for (int64_t bin = 0; bin < LH_STUDY_BINS && !m->scores; bin++) found.bins[bin] = (double)NAN;
        if (m->scores) found = measure(l, m->scores + g * l->tokens);
        for (int64_t b = m->first; b < m->end; b++) {
            for (int64_t bin = 0; bin < LH_STUDY_BINS; bin++)
                out[0][lh_figure_at(s, &figures[0], (const int64_t[]){m->kind, b, l->layer, bin})] +=
                    found.bins[bin] / (double)s->kv_heads;
            out[1][lh_figure_at(s, &figures[1], (const int64_t[]){m->kind, b, l->layer, g})] += found.spread;
        }
    }
}

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const int64_t entries = l->study->kv_heads * l->tokens, budgets = l->study->budget_count;
    lh_observed_rows rows = {.first = l->tokens - lh_min_i64(LAST, lh_layer_observable(l)), .end = l->tokens};
    lh_status st = LH_OK;
    float *scores = NULL;
    LH_TRY_DONE(lh_calloc(&scores, entries, sizeof *scores));
    LH_TRY_DONE(lh_layer_observe(l, &rows, scores));
    put(l, &(measured){ALL_ROWS, 0, budgets, l->recorded->sums}, out);
    put(l, &(measured){LAST_ROWS, 0, budgets, scores}, out);
    for (int64_t b = 0; b < budgets; b++) {
        rows.kept = lh_layer_kept(l, b, 0);
        memset(scores, 0, (size_t)entries * sizeof *scores);
        LH_TRY_DONE(lh_layer_observe(l, &rows, scores));
        put(l, &(measured){LAST_ROWS_GAIN, b, b + 1, scores}, out);
    }
done:
    lh_free(scores);
    return st;
}

const lh_analysis lh_analysis_gain = {.name = "gain",
                                      .summary = "scores over positions, with and without AhaKV's step gain",
                                      .figures = figures,
                                      .layer = layer};
