/* ruler.h - the task `ruler`: retrieval, tracking, aggregation and questions over long contexts, as RULER measures
 * them (Hsieh et al., arXiv 2404.06654). Prompts are made from seeds (ruler_prompt.h); every policy and budget answers
 * each, with the question in the prompt or after the eviction. */
#ifndef LH_EVAL_RULER_H
#define LH_EVAL_RULER_H

#include "base/table.h"
#include "eval/caches.h"
#include "eval/ruler_prompt.h"

typedef struct lh_ruler_request {
    lh_eval_setup setup;             /* its seed: of the first prompt of a task; max_new 0: as published */
    const lh_ruler_sources *sources; /* on rank 0 only */
    int tasks[LH_RULER_TASKS];       /* 1: run this one */
    lh_asked_chat chat;
    const int64_t *lengths;
    int64_t length_count;
    int64_t count; /* prompts of each task and length, with seeds from that of the setup on */
    int scenarios[LH_SCENARIOS];
} lh_ruler_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_ruler_result {
    const lh_ruler_request *request;
    lh_table answers; /* one row per answer */
} lh_ruler_result;

extern const lh_column lh_ruler_columns[], lh_ruler_mean_columns[];

/* Collective. Fits the prompts of every task and length before the first prefill, so that impossible requests fail
 * early. Fills *out row by row; the caller clears it also after a failure. */
lh_status lh_ruler_run(lh_ruler_result *out, lh_engine *engine, const lh_ruler_request *request);
void lh_ruler_result_clear(lh_ruler_result *result);

/* Means over the finished prompts: one row per policy, budget, length, scenario and task, and one for the task
 * "average", the mean of the tasks of the first version. */
lh_status lh_ruler_means(const lh_ruler_result *result, lh_table *means);

/* Appends the means as text: one table per length and scenario, with a row per policy and budget and a column per
 * task. */
lh_status lh_ruler_print(const lh_ruler_result *result, lh_buf *out);

#endif
