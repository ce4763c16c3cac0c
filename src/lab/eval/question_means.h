/* question_means.h - means of the tasks that ask questions of a file (`qa`, `choice`), by policy, budget and scenario:
 * as a table and as text. Their tables have the same columns but for the measures. */
#ifndef LH_LAB_EVAL_QUESTION_MEANS_H
#define LH_LAB_EVAL_QUESTION_MEANS_H

#include "lab/eval/caches.h"

/* Columns that rows of questions and their means begin with; then the measures, those of answers, and the task's own.
 */
enum { LH_QUESTION_POLICY, LH_QUESTION_BUDGET, LH_QUESTION_SCENARIO };
enum {
    LH_QUESTION_MEASURES = 6,
    LH_QUESTION_MEAN_COUNT = 3,
    LH_QUESTION_MEAN_MEASURES = 4,
    LH_QUESTION_MEASURES_MAX = 4
};

typedef struct lh_question_means {
    const lh_eval_setup *setup;
    const lh_table *rows;     /* of questions */
    const lh_column *columns; /* of the means */
    int measures, leading;    /* their number, and the one that a confidence interval is of */
    int figures;              /* index of the first figure in a row (figures.h) */
    const char *said;         /* the measures in words: "acc, acc_norm" */
    const char *answer;       /* "the right choice" */
} lh_question_means;

lh_status lh_question_means_table(const lh_question_means *means, lh_table *out);
lh_status lh_question_means_print(const lh_question_means *means, lh_buf *out); /* appended */

#endif
