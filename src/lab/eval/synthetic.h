/* synthetic.h - runs tasks whose prompts are made from seeds (synthetic_prompt.h) over every length, seed, scenario,
 * policy and budget: `ruler`, `path` and `kv`. */
#ifndef LH_LAB_EVAL_SYNTHETIC_H
#define LH_LAB_EVAL_SYNTHETIC_H

#include "lab/eval/caches.h"
#include "lab/eval/synthetic_prompt.h"
#include "lab/eval/task_scores.h"

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

/* Collective. Fits the prompts of every task and length before the first prefill, so that impossible requests fail
 * early. Fills *out row by row; the caller clears it also after a failure. The request must outlive it. */
lh_status lh_synthetic_run(lh_task_scores *out, lh_engine *engine, const lh_synthetic_request *request);

#endif
