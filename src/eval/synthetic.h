/* synthetic.h - runs tasks whose prompts are made from seeds (synthetic_prompt.h) over every length, seed, scenario,
 * policy and budget: `ruler`, `path` and `kv`. */
#ifndef LH_EVAL_SYNTHETIC_H
#define LH_EVAL_SYNTHETIC_H

#include "base/table.h"
#include "eval/caches.h"
#include "eval/synthetic_prompt.h"

typedef struct lh_synthetic_request {
    lh_eval_setup setup;                 /* its seed: of the first prompt of a task; max_new 0: that of the task */
    const lh_synthetic_sources *sources; /* on rank 0 only */
    const lh_synthetic_task *tasks[LH_RULER_TASKS];
    int64_t task_count;
    int64_t asked; /* as of lh_synthetic_form */
    lh_asked_chat chat;
    const int64_t *lengths;
    int64_t length_count;
    int64_t count; /* prompts of each task and length, with seeds from that of the setup on */
    int scenarios[LH_SCENARIOS];
} lh_synthetic_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_synthetic_result {
    const lh_synthetic_request *request;
    lh_table answers; /* one row per answer */
} lh_synthetic_result;

extern const lh_column lh_synthetic_columns[], lh_synthetic_mean_columns[];

/* Collective. Fits the prompts of every task and length before the first prefill, so that impossible requests fail
 * early. Fills *out row by row; the caller clears it also after a failure. */
lh_status lh_synthetic_run(lh_synthetic_result *out, lh_engine *engine, const lh_synthetic_request *request);
void lh_synthetic_result_clear(lh_synthetic_result *result);

/* Means over the finished prompts: one row per policy, budget, length, scenario and task, and one for the task
 * "average", the mean of the tasks that are averaged, if there are any. */
lh_status lh_synthetic_means(const lh_synthetic_result *result, lh_table *means);

/* Appends the means as text, for every length and scenario: of one task with policies as rows and budgets as columns,
 * of several with a row per policy and budget and a column per task. */
lh_status lh_synthetic_print(const lh_synthetic_result *result, lh_buf *out);

#endif
