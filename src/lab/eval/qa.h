/* qa.h - the task `qa`: questions about texts, answered from the cache of every policy and compared with the right
 * answers: exact match and F1 as SQuAD's script, ROUGE-L. */
#ifndef LH_LAB_EVAL_QA_H
#define LH_LAB_EVAL_QA_H

#include "lab/eval/asked_prompt.h"
#include "lab/eval/caches.h"
#include "lab/eval/qa_data.h"

typedef struct lh_qa_request {
    lh_eval_setup setup;
    const lh_qa_data *data; /* on rank 0 only */
    int scenarios[LH_SCENARIOS];
    lh_asked_chat chat;
} lh_qa_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_qa_result {
    const lh_qa_request *request;
    lh_table answers; /* one row per answer */
} lh_qa_result;

extern const lh_column lh_qa_columns[], lh_qa_mean_columns[];

/* Collective. Encodes all prompts before the first prefill, so that one that is too long for the model is reported
 * early: LH_EUSAGE, naming its line. Fills *out row by row; the caller clears it also after a failure. */
lh_status lh_qa_run(lh_qa_result *out, lh_engine *engine, const lh_qa_request *request);
void lh_qa_result_clear(lh_qa_result *result);

/* Means over the finished questions: one row per policy, budget and scenario. */
lh_status lh_qa_means(const lh_qa_result *result, lh_table *means);

/* Appends the means as text: one table per scenario, with policies as rows and budgets as columns. */
lh_status lh_qa_print(const lh_qa_result *result, lh_buf *out);

#endif
