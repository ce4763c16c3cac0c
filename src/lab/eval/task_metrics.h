/* task_metrics.h - the metrics of `eval tasks`: the score of an answer by a metric with a name, as the benchmark that
 * uses it defines it. A new metric is one row of the table in task_metrics.c. */
#ifndef LH_LAB_EVAL_TASK_METRICS_H
#define LH_LAB_EVAL_TASK_METRICS_H

#include <stdint.h>

#include "base/status.h"
#include "lab/eval/segmenter.h"

/* The right answers of a question, at least one. */
typedef struct lh_task_truth {
    char *const *answers; /* alternatives, or, if the metric has a separator, parts of a single answer */
    int64_t answer_count;
    char *const *choices; /* [choice_count] options or classes; may be none */
    int64_t choice_count;
    const lh_segmenter *words; /* Chinese words; NULL: the metric needs none */
} lh_task_truth;

typedef struct lh_task_metric {
    const char *name;
    /* One function is set, and gives a score in [0, 1]: of an alternative, where the best score counts, or of all
     * parts. */
    lh_status (*one)(const char *answer, const char *right, const lh_task_truth *truth, double *score);
    lh_status (*all)(const char *answer, const lh_task_truth *truth, double *score);
    const char *separator; /* joins the parts to the expected answer; NULL: answers are alternatives */
    int needs_choices;     /* true: the record must list options or classes */
    int needs_words;       /* true: lh_task_truth.words is required */
} lh_task_metric;

/* The row with this name, NULL if there is none; the names in the order of the table, NULL after the last. */
const lh_task_metric *lh_task_metric_find(const char *name);
const char *lh_task_metric_name(int i);

/* *score: of an answer, in %. */
lh_status lh_task_metric_score(const lh_task_metric *metric, const char *answer, const lh_task_truth *truth,
                               double *score);

#endif
