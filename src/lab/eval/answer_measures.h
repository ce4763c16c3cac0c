/* answer_measures.h - what every task with right answers reports about them beside its own measures, and the means of
 * that: how likely a right answer is, and how many of its tokens the model would choose. */
#ifndef LH_LAB_EVAL_ANSWER_MEASURES_H
#define LH_LAB_EVAL_ANSWER_MEASURES_H

#include "base/mem.h"
#include "base/table.h"
#include "lab/eval/likelihood.h"

/* Columns of a row and of a mean, from index `first` on. NAN, all: the right answer has no tokens. */
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

#endif
