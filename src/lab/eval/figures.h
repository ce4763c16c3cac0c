/* figures.h - what every task reports beside its measures: what a cache keeps and how long it took, the model, and how
 * sure a mean is. */
#ifndef LH_LAB_EVAL_FIGURES_H
#define LH_LAB_EVAL_FIGURES_H

#include "base/table.h"

/* Of one cache after the prefill, and of one answer. */
typedef struct lh_eval_figures {
    int64_t entries_kept; /* of all layers and KV heads of the model */
    int64_t kv_bytes;     /* of their keys and values */
    int64_t filled;       /* 1: protected entries fill the budget (lh_policy_is_filled) */
    double evict_s;       /* observing, selecting and compacting in the prefill */
    double decode_s;      /* generating the answer. NAN, both: times are left out */
} lh_eval_figures;

/* Columns of a row, from index `first` on. */
enum { LH_FIGURES = 5 };
#define LH_FIGURE_COLUMNS(first)                                                                                \
    [first] = {"entries_kept", "entries", LH_COLUMN_I64}, [(first) + 1] = {"kv_bytes", "bytes", LH_COLUMN_I64}, \
    [(first) + 2] = {"filled", "1: protected entries fill the budget", LH_COLUMN_I64},                          \
    [(first) + 3] = {"evict_s", "s", LH_COLUMN_F64}, [(first) + 4] = {"decode_s", "s", LH_COLUMN_F64}
void lh_figures_put(lh_cell *first, const lh_eval_figures *figures);

/* Means of rows, integers rounded. All zero is none. */
typedef struct lh_figure_sums {
    int64_t n;
    double of[LH_FIGURES];
} lh_figure_sums;
void lh_figures_add(lh_figure_sums *sums, const lh_cell *first);

/* Columns of a mean, from index `first` on; `measure`: whose interval it is. */
enum { LH_MEAN_FIGURES = LH_FIGURES + 3 };
#define LH_MEAN_FIGURE_COLUMNS(first, measure)                                                                         \
    [first] = {"ci_low", "95% confidence interval of " measure, LH_COLUMN_F64},                                        \
    [(first) + 1] = {"ci_high", "95% confidence interval of " measure, LH_COLUMN_F64}, LH_FIGURE_COLUMNS((first) + 2), \
    [(first) + 2 + LH_FIGURES] = {"model", "", LH_COLUMN_LABEL}

typedef struct lh_mean_figures {
    double mean; /* of the measure, over sums.n prompts */
    const lh_figure_sums *sums;
    const char *model;
} lh_mean_figures;
void lh_mean_figures_put(lh_cell *first, const lh_mean_figures *of);

/* Wilson's score interval at 95% (JASA 22, 1927) of a share of n; of the mean of n measures between 0 and 1 it is wide
 * enough, since none of these has a larger variance than a share with the same mean. NAN if n is 0. */
void lh_confidence_interval(double mean, int64_t n, double *low, double *high);

#endif
