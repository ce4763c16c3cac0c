/* analyses.c - the table of analyses, and where values lie in their figures. */
#include <string.h>

#include "base/minmax.h"
#include "lab/replay/analysis.h"

const double lh_study_shares[LH_STUDY_SHARES] = {0.9, 0.95, 0.99};
const double lh_study_thresholds[LH_STUDY_THRESHOLDS] = {1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2};
const double lh_study_proxies[LH_STUDY_PROXIES] = {1, 4, 16, 32, 64, 128, 256, 512};
const char *const lh_study_scores[LH_STUDY_SCORES] = {"all rows", "last 32 rows", "last 32 rows, step gain"};
const char *const lh_study_allocations[LH_STUDY_ALLOCATIONS] = {"uniform", "adaptive"};

#define X(name) extern const lh_analysis lh_analysis_##name;
#include "lab/replay/analysis_list.h"
#undef X

static const lh_analysis *const analyses[] = {
#define X(name) &lh_analysis_##name,
#include "lab/replay/analysis_list.h"
#undef X
};

const lh_analysis *lh_analysis_at(int i)
{
    return i >= 0 && i < (int)(sizeof analyses / sizeof *analyses) ? analyses[i] : NULL;
}

int64_t lh_layer_visits(const lh_layer_facts *l, int64_t j)
{
    const int64_t first = lh_max_i64(j, l->tokens - l->column_rows),
                  end = l->window ? lh_min_i64(l->tokens, j + l->window) : l->tokens;
    return lh_max_i64(end - first, 0);
}

int64_t lh_layer_bin(const lh_layer_facts *l, int64_t j)
{
    return j * LH_STUDY_BINS / l->tokens;
}

int64_t lh_layer_bin_size(const lh_layer_facts *l, int64_t bin)
{
    /* the first entry of a stretch is the first j with j * BINS >= bin * tokens */
    const int64_t first = (bin * l->tokens + LH_STUDY_BINS - 1) / LH_STUDY_BINS,
                  end = ((bin + 1) * l->tokens + LH_STUDY_BINS - 1) / LH_STUDY_BINS;
    return end - first;
}

int64_t lh_layer_kept(const lh_layer_facts *l, int64_t budget, int64_t head)
{
    const uint32_t *kept = l->kept + (l->study->oracle * l->study->kv_heads + head) * l->tokens;
    int64_t n = 0;
    for (int64_t j = 0; j < l->tokens; j++) n += kept[j] >> budget & 1;
    return n;
}

int64_t lh_axis_count(const lh_study *s, lh_axis axis)
{
    const int64_t counts[LH_AXES] = {[LH_AXIS_NONE] = 1,
                                     [LH_AXIS_POLICY] = s->policy_count,
                                     [LH_AXIS_OTHER] = s->policy_count,
                                     [LH_AXIS_BUDGET] = s->budget_count,
                                     [LH_AXIS_LAYER] = s->layers,
                                     [LH_AXIS_HEAD] = s->heads,
                                     [LH_AXIS_KV_HEAD] = s->kv_heads,
                                     [LH_AXIS_BIN] = LH_STUDY_BINS,
                                     [LH_AXIS_SHARE] = LH_STUDY_SHARES,
                                     [LH_AXIS_THRESHOLD] = LH_STUDY_THRESHOLDS,
                                     [LH_AXIS_PROXIES] = LH_STUDY_PROXIES,
                                     [LH_AXIS_SCORE] = LH_STUDY_SCORES,
                                     [LH_AXIS_ALLOCATION] = LH_STUDY_ALLOCATIONS};
    return counts[axis];
}

int64_t lh_figure_values(const lh_study *s, const lh_analysis_figure *f)
{
    int64_t n = 1;
    for (int d = 0; d < LH_FIGURE_DIMS; d++) n *= lh_axis_count(s, f->axes[d]);
    return n;
}

int64_t lh_figure_at(const lh_study *s, const lh_analysis_figure *f, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < LH_FIGURE_DIMS && f->axes[d] != LH_AXIS_NONE; d++)
        at = at * lh_axis_count(s, f->axes[d]) + index[d];
    return at;
}
