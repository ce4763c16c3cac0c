/* samples.h - what a figure of policies at budgets rests on: the value of each text, by which a lead is told from
 * chance, and the cells in which a policy chooses nothing. They are columns of the tables of a file that have a row for
 * each text: the prompts, answers or windows of `eval`, and the texts of `replay`. */
#ifndef LH_LAB_REPORT_SAMPLES_H
#define LH_LAB_REPORT_SAMPLES_H

#include <jansson.h>

#include "lab/analysis/figures.h"
#include "lab/analysis/tables.h"
#include "lab/report/view.h"

typedef struct lh_samples {
    int64_t budgets; /* of the figure */
    int64_t texts;   /* 0: the file does not say how many */
    int by_window;   /* 1: the texts are windows, of which one document may have several */
    double *values;  /* [policies, budgets, texts], NAN: none; NULL: the file has no values of single texts */
    uint8_t *filled; /* [policies, budgets] 1: protected entries fill the budget, so that scores choose nothing; NULL:
                      * nowhere */
} lh_samples;

/* Of a figure with the dimensions `policy` (labels) and `budget`, and of the tables and the summary (NULL: none) of its
 * file; all zero of other figures. */
lh_status lh_samples_read(lh_samples *out, const lh_figure *figure, const lh_tables *tables, const json_t *summary);
void lh_samples_clear(lh_samples *samples);

/* 1 if protected entries fill this budget of this policy; at this place of a view with policies as series and budgets
 * along x, of other views 0. */
int lh_samples_filled(const lh_samples *samples, int64_t policy, int64_t budget);
int lh_samples_filled_at(const lh_samples *samples, const lh_view *view, int64_t series, int64_t x);

/* What one policy has more than another at a budget, over the texts that both have. */
typedef struct lh_lead {
    int64_t texts;    /* that both have */
    double low, high; /* 95% confidence interval of the mean of the differences; NAN: fewer than two texts */
} lh_lead;

typedef struct lh_pair {
    int64_t policy, other, budget;
    double range; /* of values that are right or wrong: 1, or 100 in percent; else 0 */
} lh_pair;

/* Student's interval of the paired differences. For right and wrong answers two pairs of no lead are added (Agresti and
 * Min, Statistics in Medicine 24, 2005): otherwise few answers that all agree would have an interval of no width. */
lh_lead lh_samples_lead(const lh_samples *samples, const lh_pair *pair);

#endif
