/* needle.h - the task `needle`: a sentence with a secret is hidden in a long text, and the model is asked for it
 * ("needle in a haystack", Kamradt 2023).
 *
 * Prompts are made for every length, depth, seed and kind of fact (needle_prompt.h); every policy and budget answers
 * each, with the question in the prompt or after the eviction. An answer is judged by the words of the secret that it
 * contains. */
#ifndef LH_LAB_EVAL_NEEDLE_H
#define LH_LAB_EVAL_NEEDLE_H

#include "base/table.h"
#include "lab/eval/needle_prompt.h"
#include "lab/eval/run_policies.h"

typedef struct lh_needle_request {
    lh_eval_setup setup; /* its seed: the first of `seeds` */
    lh_needle_form form; /* haystack and kinds are on rank 0 only; format and system message come from `chat` */
    lh_eval_chat chat;
    const int64_t *lengths;
    int64_t length_count;
    const double *depths;
    int64_t depth_count;
    int scenarios[LH_SCENARIOS]; /* 1: run this one */
    int names_kinds;             /* 1: the kinds are of a file, and names of prompts and tables name them */
    int64_t seeds;
} lh_needle_request;

/* Rows are on rank 0 only; a row is complete when it is added. The request must outlive the result. */
typedef struct lh_needle_result {
    const lh_needle_request *request;
    char (*kinds)[LH_NEEDLE_KIND_BYTES]; /* [kind_count] names, on all ranks */
    int64_t kind_count;
    lh_table prompts; /* one row per answer */
} lh_needle_result;

/* Measures of an answer. exact: 1 if it contains the words of the secret in order; words: share of the secret's words
 * that it contains; both ignore case and punctuation. answered: 1 if the full cache's answer to this prompt is
 * exact. */
extern const lh_column lh_needle_prompt_columns[], lh_needle_mean_columns[];

/* Collective. Makes one prompt of every length before the first prefill, so that impossible requests fail early. Fills
 * *out row by row, so that `progress` may read it; the caller clears it also after a failure. */
lh_status lh_needle_run(lh_needle_result *out, lh_engine *engine, const lh_needle_request *request);
void lh_needle_result_clear(lh_needle_result *result);

/* Means over the finished depths and seeds: one row per policy, budget, length, scenario and kind of fact (`task`),
 * and, of several kinds, the task "average". `…_answered`: only over prompts that the full cache answers; NAN if there
 * are none. */
lh_status lh_needle_means(const lh_needle_result *result, lh_table *means);

/* Appends the means as text: one table per length, scenario and kind, with policies as rows and budgets as columns. */
lh_status lh_needle_print(const lh_needle_result *result, lh_buf *out);

#endif
