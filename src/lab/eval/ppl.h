/* ppl.h - the task `ppl`: perplexity of texts after an evicted context.
 *
 * Windows are cut from the texts. The first part of a window is the context: it is prefilled, and every policy and
 * budget evicts it. The tokens after it are fed one after the other (teacher forcing), and each one's negative
 * log-likelihood is read off the logits before it. Windows that begin every `stride` tokens are a sliding window over
 * the text. With several lengths of the context the same tokens are scored after each. */
#ifndef LH_LAB_EVAL_PPL_H
#define LH_LAB_EVAL_PPL_H

#include "base/table.h"
#include "lab/eval/input_files.h"
#include "lab/eval/run_policies.h"

typedef struct lh_ppl_request {
    lh_eval_setup setup;     /* max_new is not used */
    const lh_texts *texts;   /* on rank 0 only */
    const int64_t *contexts; /* tokens, with the beginning-of-sequence token if the tokenizer adds one */
    int64_t context_count;
    int64_t score;  /* tokens after it that are scored */
    int64_t stride; /* tokens from one window to the next; 0: windows do not overlap */
    int64_t count;  /* maximum number of windows, spread evenly over all that the texts have; 0: all */
    int64_t bins;   /* of the positions after the context, for the curve */
} lh_ppl_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_ppl_result {
    const lh_ppl_request *request;
    lh_table windows;   /* one row per window, context, policy and budget */
    lh_table positions; /* and one per bin of each */
} lh_ppl_result;

extern const lh_column lh_ppl_columns[], lh_ppl_position_columns[], lh_ppl_mean_columns[], lh_ppl_curve_columns[];

/* Collective. Fills *out row by row; the caller clears it also after a failure. LH_EUSAGE if numbers do not fit
 * together or into the model, LH_EINPUT if no text is as long as a window. */
lh_status lh_ppl_run(lh_ppl_result *out, lh_engine *engine, const lh_ppl_request *request);
void lh_ppl_result_clear(lh_ppl_result *result);

/* Over the finished windows, one row per policy, budget and context: the mean negative log-likelihood, the perplexity
 * exp of it, and its excess over the perplexity of the full cache, with 95% confidence intervals from the variance
 * between windows (normal approximation; of the excess, by window; NAN for a single window). */
lh_status lh_ppl_means(const lh_ppl_result *result, lh_table *means);

/* The mean by bin of positions. */
lh_status lh_ppl_curve(const lh_ppl_result *result, lh_table *curve);

/* Appends both as text: for every context a table with policies as rows and budgets as columns, and the curve. */
lh_status lh_ppl_print(const lh_ppl_result *result, lh_buf *out);

#endif
