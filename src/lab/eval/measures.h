/* measures.h - the measures that all tasks report, as columns of their tables, their means, and a printed table of
 * policies by budgets: entries and bytes of a cache, times, the likelihood of the right answer, confidence intervals.
 */
#ifndef LH_LAB_EVAL_MEASURES_H
#define LH_LAB_EVAL_MEASURES_H

#include "base/mem.h"
#include "base/table.h"
#include "policies/list.h"

/* ---- the cache ---- */

/* A cache after the prefill, and one answer from it. */
typedef struct lh_eval_figures {
    int64_t entries_kept; /* in all layers and KV heads of the model */
    int64_t kv_bytes;     /* bytes of their keys and values */
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

/* Columns of a mean, from index `first` on; `measure`: name of the measure that has the interval. */
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
 * enough, since no such measure has a larger variance than a share with the same mean. NAN if n is 0. */
void lh_confidence_interval(double mean, int64_t n, double *low, double *high);

/* ---- the right answer ---- */

/* Sums over the tokens of an answer, as lh_likelihood_of computes them. */
typedef struct lh_answer_likelihood {
    int64_t tokens, best;
    double nll;
} lh_answer_likelihood;

/* Columns of a row and of a mean, from index `first` on: negative log-likelihood, and the share of tokens that the
 * model would choose. NAN, both: the right answer has no tokens. */
enum { LH_ANSWER_MEASURES = 2 };
#define LH_ANSWER_MEASURE_COLUMNS(first)                       \
    [first] = {"answer_nll", "nats per token", LH_COLUMN_F64}, \
    [(first) + 1] = {"answer_best", "share of the right answer's tokens", LH_COLUMN_F64}
void lh_answer_measures_put(lh_cell *first, const lh_answer_likelihood *answer);

/* Means of rows; those with NAN do not count. All zero is none. */
typedef struct lh_answer_sums {
    int64_t n;
    double of[LH_ANSWER_MEASURES];
} lh_answer_sums;
void lh_answer_sums_add(lh_answer_sums *sums, const lh_cell *first);
void lh_answer_sums_mean(const lh_answer_sums *sums, lh_cell *first);

/* Appends " 3.21 0.75", with " –" for NAN, to a cell of a printed table. */
lh_status lh_answer_measures_print(const lh_cell *first, lh_buf *out);

/* ---- printing ---- */

/* A Markdown table with policies as rows and budgets as columns; `cell` appends the text of a policy and budget. */
typedef struct lh_grid {
    const void *self;
    lh_status (*cell)(const void *self, const lh_policy_choice *choice, lh_buf *out);
} lh_grid;

/* Appends the table. `full`, which has no budget, is alone in the first column of numbers; the cell of a policy that
 * was not run with a budget is empty. */
lh_status lh_grid_print(const lh_policy_list *policies, const lh_grid *grid, lh_buf *out);

#endif
