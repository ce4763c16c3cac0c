/* longbench.h - the task `longbench`: questions, summaries, few-shot examples and code of LongBench, with its prompts
 * and metrics. */
#ifndef LH_LAB_EVAL_LONGBENCH_H
#define LH_LAB_EVAL_LONGBENCH_H

#include "lab/eval/longbench_data.h"
#include "lab/eval/task_scores.h"

typedef struct lh_longbench_request {
    lh_eval_setup setup;           /* max_new 0: as published */
    const lh_longbench_data *data; /* on rank 0 only */
    lh_asked_chat chat;
    const int64_t *lengths; /* tokens of prompt and answer: longer contexts are cut in the middle */
    int64_t length_count;
    int scenarios[LH_SCENARIOS];
} lh_longbench_request;

/* Collective. Makes all prompts before the first prefill, so that impossible requests fail early. Fills *out row by
 * row; the caller clears it also after a failure. The request must outlive it. */
lh_status lh_longbench_run(lh_task_scores *out, lh_engine *engine, const lh_longbench_request *request);

#endif
