/* fidelity.h - the task `fidelity`: how close a model with an evicted cache stays to itself with all of it. */
#ifndef LH_EVAL_FIDELITY_H
#define LH_EVAL_FIDELITY_H

#include "base/table.h"
#include "eval/caches.h"
#include "eval/texts.h"

typedef struct lh_fidelity_request {
    const lh_texts *texts; /* there on rank 0 only */
    const lh_policy_list *policies;
    const int64_t *lengths; /* tokens of a window */
    int64_t length_count;
    int64_t count;      /* windows of each length, spread evenly over the texts */
    int64_t max_new;    /* tokens to go on with, at least 2 */
    uint64_t seed;      /* of the policies' random choices */
    int reconstruct;    /* 1: the model is also asked to repeat the window */
    const char *repeat; /* what it is asked then */
    int64_t repeat_max; /* tokens of its answer at most; 0: as many as the window has */
    int chat;           /* of that question: in a chat format, as lh_prompt_text */
    const char *chat_template;
    int64_t together; /* as lh_caches_request */
    lh_eval_progress progress;
} lh_fidelity_request;

/* Rows are rank 0's. The request has to outlive it. */
typedef struct lh_fidelity_result {
    const lh_fidelity_request *request;
    lh_table windows;  /* one row a window and cache */
    lh_table repeated; /* the same of the reconstructions */
} lh_fidelity_result;

/* Columns of `windows`. The full cache goes on greedily with tokens f_1 … f_n (n = max_new, fewer where it ends). The
 * first of them is the same for every cache that is evicted at the end of the prompt; so measures are of the n - 1
 * others:
 * - agreement: share of tokens that the policy's own greedy continuation has at the same place;
 * - diverged_at: tokens before the first one that differs, n when none does;
 * - rouge1 … bleu: its text against the full cache's (eval/similarity.h);
 * - kl: mean over places of KL(full || policy) in nats when f_1 … f_n is forced on both;
 * - best: share of places where both then have the same best token.
 *
 * Columns of `repeated`: rouge1 … bleu of what the model repeats, against the text of the window (context
 * reconstruction: Ren & Zhu, "On the Efficacy of Eviction Policy for Key-Value Constrained Generative Language Model
 * Inference", arXiv 2402.06262, section 4). */
extern const lh_column lh_fidelity_columns[], lh_repeated_columns[], lh_fidelity_mean_columns[];

/* Collective. *out is filled while it works; it is the caller's also when this fails. LH_EINPUT where the texts have
 * fewer windows. */
lh_status lh_fidelity_run(lh_fidelity_result *out, lh_engine *engine, const lh_fidelity_request *request);
void lh_fidelity_result_clear(lh_fidelity_result *result);

/* Means over the windows of what there is: a row for every policy, budget and length. */
lh_status lh_fidelity_means(const lh_fidelity_result *result, lh_table *means);

/* The means as text: a table for every length, policies and budgets down, measures across; appended. */
lh_status lh_fidelity_print(const lh_fidelity_result *result, lh_buf *out);

#endif
