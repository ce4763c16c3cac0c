/* fidelity.h - the task `fidelity`: how close a model with an evicted cache stays to the same model with the full one.
 *
 * Windows of texts are prompts. The full cache's greedy continuation is the reference: every policy is compared with it
 * token by token, as text (ROUGE, BLEU), and by the KL divergence of its logits when the reference is forced on it.
 * Optionally the model is also asked to repeat the window (context reconstruction). */
#ifndef LH_LAB_EVAL_FIDELITY_H
#define LH_LAB_EVAL_FIDELITY_H

#include "base/table.h"
#include "lab/eval/input_files.h"
#include "lab/eval/questions.h"
#include "lab/eval/run_policies.h"

typedef struct lh_fidelity_request {
    lh_eval_setup setup;    /* its max_new is at least 2 */
    const lh_texts *texts;  /* on rank 0 only */
    const int64_t *lengths; /* tokens of a window */
    int64_t length_count;
    int64_t count;      /* windows of each length, spread evenly over the texts */
    int reconstruct;    /* 1: the model is also asked to repeat the window */
    const char *repeat; /* the instruction to repeat it */
    int64_t repeat_max; /* maximum tokens of that answer; 0: as many as the window has */
    lh_eval_chat chat;  /* for that instruction; without a system message */
} lh_fidelity_request;

/* Rows are on rank 0 only. The request must outlive the result. */
typedef struct lh_fidelity_result {
    const lh_fidelity_request *request;
    lh_table windows;  /* one row per window and cache */
    lh_table repeated; /* the same of the reconstructions */
} lh_fidelity_result;

/* Columns of `windows`. The full cache's greedy continuation is f_1 … f_n (n = max_new, fewer if it ends earlier). Its
 * first token is the same for every cache that is evicted at the end of the prompt, so the measures use the n - 1
 * others:
 * - agreement: share of tokens that the policy's own greedy continuation has at the same position;
 * - diverged_at: tokens before the first that differs, n if none does;
 * - rouge1 … bleu: its text compared with the full cache's (text_metrics.h);
 * - kl: mean over positions of KL(full || policy) in nats with f_1 … f_n forced on both;
 * - best: share of positions at which both then have the same best token.
 *
 * Columns of `repeated`: rouge1 … bleu of the model's repetition, compared with the text of the window (context
 * reconstruction: Ren & Zhu, "On the Efficacy of Eviction Policy for Key-Value Constrained Generative Language Model
 * Inference", arXiv 2402.06262, section 4). */
extern const lh_column lh_fidelity_columns[], lh_repeated_columns[], lh_fidelity_mean_columns[];

/* Collective. Fills *out row by row; the caller clears it also after a failure. LH_EINPUT if the texts have too few
 * windows. */
lh_status lh_fidelity_run(lh_fidelity_result *out, lh_engine *engine, const lh_fidelity_request *request);
void lh_fidelity_result_clear(lh_fidelity_result *result);

/* Means over the finished windows: one row per policy, budget and length. */
lh_status lh_fidelity_means(const lh_fidelity_result *result, lh_table *means);

/* Appends the means as text: one table per length, with policies and budgets as rows and measures as columns. */
lh_status lh_fidelity_print(const lh_fidelity_result *result, lh_buf *out);

#endif
