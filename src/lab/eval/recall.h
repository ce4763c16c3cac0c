/* recall.h - the task `recall`: which facts of the prompt and of the tokens since a cache still knows after evictions
 * while decoding.
 *
 * A window of text holds facts at known places. Its first part is prefilled; the rest is fed one token after the other
 * as if it had been generated (teacher forcing), and the policy evicts as while decoding. Then every fact is asked for,
 * each from the same state of the cache, and the likelihood of its answer is measured. The logits before the fed
 * tokens are compared with the logits of the full cache. */
#ifndef LH_LAB_EVAL_RECALL_H
#define LH_LAB_EVAL_RECALL_H

#include "base/table.h"
#include "lab/eval/recall_trace.h"
#include "lab/eval/run_policies.h"

typedef struct lh_recall_request {
    lh_eval_setup setup; /* its seed: the first of `seeds`; max_new and together are not used */
    lh_needle_form form; /* haystack and kinds are on rank 0 only; format and system message come from `chat` */
    lh_eval_chat chat;
    const int64_t *lengths; /* of prompts */
    int64_t length_count;
    int64_t steps; /* tokens that are fed after a prompt */
    int64_t seeds; /* windows of a length */
} lh_recall_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_recall_result {
    const lh_recall_request *request;
    lh_table facts;  /* one row per fact of a window, policy and budget */
    lh_table traces; /* one row per window, policy and budget */
} lh_recall_result;

/* Measures of a fact: age, the tokens after it when it is asked for; exact, 1 if every token of the answer is the most
 * likely one. Measures of a trace: kl, mean of KL(full || policy) over the fed tokens in nats; nll, their mean negative
 * log-likelihood; over_full, its excess over that with the full cache. Figures are of the cache after the fed tokens,
 * decode_s is the time of feeding them. */
extern const lh_column lh_recall_fact_columns[], lh_recall_trace_columns[], lh_recall_mean_columns[],
    lh_recall_curve_columns[];

/* Collective. Every policy has its own prefill, since the state after the fed tokens is stored in its session. On
 * rank 0 the full cache's logits of a window are kept, [steps, vocab]. Fills *out row by row; the caller clears it also
 * after a failure. */
lh_status lh_recall_run(lh_recall_result *out, lh_engine *engine, const lh_recall_request *request);
void lh_recall_result_clear(lh_recall_result *result);

/* On rank 0. One row per policy, budget, length and kind of fact, and, of several kinds, for all of them ("average").
 */
lh_status lh_recall_means(const lh_recall_result *result, lh_table *means);

/* On rank 0. One row per policy, budget, length and place of a fact in the window, the oldest first. */
lh_status lh_recall_curve(const lh_recall_result *result, lh_table *curve);

/* Appends the means as text: for every length the facts by kind, by age, and the measures of the traces. */
lh_status lh_recall_print(const lh_recall_result *result, lh_buf *out);

#endif
