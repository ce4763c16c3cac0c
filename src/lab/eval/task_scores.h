/* task_scores.h - the tables of `eval tasks`: rows of answers with their scores, the means by policy, budget, length,
 * scenario and task, and the average over tasks. */
#ifndef LH_LAB_EVAL_TASK_SCORES_H
#define LH_LAB_EVAL_TASK_SCORES_H

#include "base/table.h"
#include "lab/eval/questions.h"
#include "lab/eval/run_policies.h"

extern const lh_column lh_task_score_columns[], lh_score_mean_columns[]; /* of answers, of means */

/* Adds a row; exact is 1 if the score is 100. */
typedef struct lh_task_score {
    const lh_policy_choice *choice;
    int64_t length, line, tokens, context_tokens; /* line: number of the record in its file */
    lh_scenario scenario;
    const char *task, *expected, *answer;
    double value;
    const lh_answer_likelihood *right;
    const lh_eval_figures *figures;
} lh_task_score;
lh_status lh_task_scores_add(lh_table *answers, const lh_task_score *score);

/* The answers of a run, on rank 0. */
typedef struct lh_task_scores {
    const lh_eval_setup *setup; /* borrowed */
    const char **tasks;         /* [task_count] borrowed names */
    int64_t *lengths;           /* [length_count] */
    int64_t task_count, length_count;
    lh_table answers; /* one row per answer */
} lh_task_scores;
void lh_task_scores_clear(lh_task_scores *scores);

/* Means over the finished prompts: one row per policy, budget, length, scenario and task, and one for the task
 * "average", the mean of several tasks. */
lh_status lh_task_scores_means(const lh_task_scores *scores, lh_table *means);

/* Appends the means as text, for every length and scenario: of one task with policies as rows and budgets as columns,
 * of several, for every budget, with a row per task and a column per policy. */
lh_status lh_task_scores_print(const lh_task_scores *scores, lh_buf *out);

#endif
