/* Attention of all rows of the prompt to an entry, over its position, independent of the policy: sums fall with the
 * position, because fewer rows see later entries, which biases policies that rank by sums (AhaKV); and RoCo's mean and
 * deviation. */
#include <math.h>

#include "base/minmax.h"
#include "lab/replay/analysis.h"

#define OVER_POSITIONS(what, text, of, origin)                                                                   \
    {                                                                                                            \
        .name = "scores-" what, .title = text " over the position",                                              \
        .about = text " that the counted query rows give to an entry, as the mean over the query heads of a KV " \
                      "head, over the entries of a 64th of the prompt.",                                         \
        .unit = of, .source = origin, .view = LH_VIEW_CURVES, .x = LH_AXIS_BIN, .y = LH_AXIS_LAYER, .axes = {    \
            LH_AXIS_LAYER,                                                                                       \
            LH_AXIS_KV_HEAD,                                                                                     \
            LH_AXIS_BIN                                                                                          \
        }                                                                                                        \
    }

static const lh_analysis_figure figures[] = {
    OVER_POSITIONS("sum", "Sum of the attention", "sum of shares",
                   "AhaKV, arXiv 2506.03762, figure 2a; NaCl, arXiv 2408.03675, figure 7"),
    OVER_POSITIONS("mean", "Mean attention", "share of 1", "RoCo, arXiv 2402.06262, section 3"),
    OVER_POSITIONS("deviation", "Standard deviation of the attention", "share of 1",
                   "RoCo, arXiv 2402.06262, figure 3"),
    {0}};

static lh_status layer(const lh_layer_facts *l, double *const *out)
{
    const lh_study *s = l->study;
    const lh_trace_layer *r = l->recorded;
    for (int64_t g = 0; g < s->kv_heads; g++)
        for (int64_t j = 0; j < l->tokens; j++) {
            const int64_t bin = lh_layer_bin(l, j),
                          at = lh_figure_at(s, figures, (const int64_t[]){l->layer, g, bin, 0});
            const double entries = (double)lh_layer_bin_size(l, bin),
                         sum = r->sums ? (double)r->sums[g * l->tokens + j] : (double)NAN,
                         squares = r->squares ? (double)r->squares[g * l->tokens + j] : (double)NAN,
                         rows = (double)lh_max_i64(lh_layer_visits(l, j), 1), mean = sum / rows;
            out[0][at] += sum / entries;
            out[1][at] += mean / entries;
            out[2][at] += sqrt(fmax(0, squares / rows - mean * mean)) / entries;
        }
    return LH_OK;
}

const lh_analysis lh_analysis_scores = {.name = "scores",
                                        .summary = "sums, means and deviations of attention over positions",
                                        .figures = figures,
                                        .layer = layer};
