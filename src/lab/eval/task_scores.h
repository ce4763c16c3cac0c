/* task_scores.h - the tables of evaluations that give every answer a score in % for one of several tasks (`ruler`,
 * `path`, `kv`, `longbench`): rows of answers, their means by policy, budget, length, scenario and task, and the
 * average over tasks. */
#ifndef LH_LAB_EVAL_TASK_SCORES_H
#define LH_LAB_EVAL_TASK_SCORES_H

#include "base/table.h"
#include "lab/eval/asked_prompt.h"
#include "lab/eval/caches.h"
#include "lab/eval/likelihood.h"

/* Columns of answers, and of means. */
extern const lh_column lh_seed_score_columns[]; /* of prompts made from seeds: seed, units */
extern const lh_column lh_line_score_columns[]; /* of prompts from files: line, context_tokens */
extern const lh_column lh_score_mean_columns[];

/* Adds a row; exact is 1 if the score is 100. */
typedef struct lh_task_score {
    const lh_policy_choice *choice;
    int64_t length, number, tokens, units;
    lh_scenario scenario;
    const char *task, *expected, *answer;
    double value;
    const lh_answer_likelihood *right;
    const lh_eval_figures *figures;
} lh_task_score;
lh_status lh_task_scores_add(lh_table *answers, const lh_task_score *score);

/* The answers of a run, on rank 0. Everything but the table is borrowed. */
enum { LH_SCORED_TASKS = 32 };
typedef struct lh_scored_task {
    const char *label;
    int averaged; /* 1: the average over tasks includes it */
} lh_scored_task;
typedef struct lh_task_scores {
    const lh_eval_setup *setup;
    lh_scored_task tasks[LH_SCORED_TASKS];
    int64_t task_count;
    const int64_t *lengths;
    int64_t length_count;
    lh_table answers; /* one row per answer */
} lh_task_scores;
void lh_task_scores_clear(lh_task_scores *scores);

/* Means over the finished prompts: one row per policy, budget, length, scenario and task, and one for the task
 * "average", the mean of the tasks that are averaged, if there are any. */
lh_status lh_task_scores_means(const lh_task_scores *scores, lh_table *means);

/* Appends the means as text, for every length and scenario: of one task with policies as rows and budgets as columns,
 * of several with a row per policy and budget and a column per task. */
lh_status lh_task_scores_print(const lh_task_scores *scores, lh_buf *out);

#endif
