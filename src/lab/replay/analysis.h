/* analysis.h - an analysis: its figures, and the functions that add values to them while a study visits layers, heads
 * and outcomes. One file each (analysis_*.c) and one row of analysis_list.h. */
#ifndef LH_LAB_REPLAY_ANALYSIS_H
#define LH_LAB_REPLAY_ANALYSIS_H

#include "lab/analysis/figures.h"
#include "lab/replay/study.h"

/* Dimensions of figures. Figures of layers, heads and outcomes have LH_AXIS_LAYER: a layer is analysed by one rank. */
typedef enum lh_axis {
    LH_AXIS_NONE,
    LH_AXIS_POLICY,
    LH_AXIS_OTHER, /* policies, as the second of a pair */
    LH_AXIS_BUDGET,
    LH_AXIS_LAYER,
    LH_AXIS_HEAD, /* query heads */
    LH_AXIS_KV_HEAD,
    LH_AXIS_BIN,        /* LH_STUDY_BINS stretches of the prompt */
    LH_AXIS_SHARE,      /* lh_study_shares */
    LH_AXIS_THRESHOLD,  /* lh_study_thresholds */
    LH_AXIS_PROXIES,    /* lh_study_proxies */
    LH_AXIS_SCORE,      /* lh_study_scores */
    LH_AXIS_ALLOCATION, /* lh_study_allocations */
    LH_AXES
} lh_axis;

/* The members of lh_figure that do not depend on the study. A row without a name ends a list. */
typedef struct lh_analysis_figure {
    const char *name, *title, *about, *unit, *source;
    lh_figure_view view;
    lh_axis x, y;
    int better;
    lh_axis axes[LH_FIGURE_DIMS];
} lh_analysis_figure;

/* Functions may be NULL. out[f]: values of figure f, which start at 0 and are divided at the end by the number of
 * traces that have the layer. Heads and their outcomes are visited before their layer. `continued` is called on rank
 * 0, for every policy and budget of a trace, if a model continues the prompt; an analysis with `continued` needs the
 * model. */
typedef struct lh_analysis {
    const char *name, *summary;
    const lh_analysis_figure *figures;
    lh_status (*layer)(const lh_layer_facts *layer, double *const *out);
    lh_status (*head)(const lh_head_facts *head, double *const *out);
    lh_status (*outcome)(const lh_head_facts *head, const lh_outcome *outcome, double *const *out);
    lh_status (*continued)(const lh_continued *continued, double *const *out);
} lh_analysis;

const lh_analysis *lh_analysis_at(int i);          /* NULL after the last */
extern const lh_analysis lh_analysis_perturbation; /* what budgets are made from */

int64_t lh_axis_count(const lh_study *study, lh_axis axis);
int64_t lh_figure_values(const lh_study *study, const lh_analysis_figure *figure);

/* Offset of the value at these indices, one index for each axis of the figure. */
int64_t lh_figure_at(const lh_study *study, const lh_analysis_figure *figure, const int64_t *index);

#endif
