/* caches.h - one prompt with the caches of many policies: every task of `eval` is built on this.
 *
 * One prefill fills the caches of all policies that evict at its end; a policy that evicts during prefill gets a
 * prefill of its own. A task visits the caches in turn, generates from each, and can go back to the end of the prefill
 * as often as it needs. */
#ifndef LH_LAB_EVAL_CACHES_H
#define LH_LAB_EVAL_CACHES_H

#include "base/status.h"
#include "engine/decode.h"
#include "lab/eval/figures.h"
#include "lab/eval/resume.h"
#include "lab/eval/work.h"
#include "policies/list.h"

/* What every task is asked. */
typedef struct lh_eval_setup {
    const lh_policy_list *policies;
    uint64_t seed; /* of the policies' random choices, and of what a task draws */
    int64_t max_new;
    int64_t together;  /* maximum number of caches per prefill (all are in memory at once); 0: all */
    lh_resume *resume; /* NULL: finished prompts are not kept; always on ranks other than 0 */
    lh_eval_progress progress;
    const char *model;      /* its name in the tables */
    int timed;              /* 0: times are left out, so that results are the same bytes */
    const char *keep_sets;  /* a folder for the keep sets (keep_files.h); NULL: none */
    const char *run;        /* resolved options, JSON: stored with them */
    lh_failures *unwritten; /* of writing them, the same on all ranks */
} lh_eval_setup;

/* A cache after the prefill of the prompt. */
typedef struct lh_cache_at {
    int64_t policy; /* index in the list */
    lh_session *session;
    int64_t cache;           /* index in the session */
    lh_eval_figures figures; /* decode_s is the task's to fill */
} lh_cache_at;

typedef struct lh_caches_request {
    const lh_eval_setup *setup;
    const char *name; /* of the prompt, as of lh_keep_file */
    const lh_tokens *prompt;
    int64_t question; /* tokens at the end of the prompt that are the question, 0: none */
    int64_t more;     /* maximum number of tokens after the prompt */
    int64_t block;    /* of these, maximum tokens of one forward pass (a question) */
    int64_t rows;     /* maximum rows of logits that are kept (lh_likelihood_rows); 0: one */
    uint64_t seed;    /* of the policies' random choices */
    lh_eval_work *work;
} lh_caches_request;

/* Collective. Calls `visit` once for every policy, in the order of the list; policies that evict during prefill come
 * last, each after a prefill of its own. On each call the session is in its state at the end of the prefill. */
typedef lh_status (*lh_cache_visit)(void *self, const lh_cache_at *at);
lh_status lh_caches_each(lh_engine *engine, const lh_caches_request *request, lh_cache_visit visit, void *self);

/* Adds to the work what lh_caches_each does for a prompt of `tokens` tokens: its prefills, and from every cache an
 * answer of `answer` tokens. */
typedef struct lh_caches_plan {
    int64_t tokens, answer;
} lh_caches_plan;
void lh_caches_expect(lh_eval_work *work, const lh_eval_setup *setup, const lh_config *config,
                      const lh_caches_plan *plan);

/* On every rank, when all rows of a prompt are in the tables (ends with NULL; of rank 0): counts it as finished and
 * keeps it, unless a keep set of it could not be written. */
void lh_eval_finish_prompt(const lh_eval_setup *setup, lh_eval_work *work, lh_table *const *tables);

/* LH_EUSAGE if the model has no tokenizer. */
lh_status lh_eval_check_tokenizer(const lh_engine *engine);

/* LH_EUSAGE if prompts of these lengths ('--length') and answers to them are longer than the model allows, or a policy
 * is impossible for them. */
lh_status lh_eval_check_lengths(const lh_eval_setup *setup, const lh_config *config, const int64_t *lengths, int64_t n);

/* Seconds since `start_s` (base/clock.h) where times are wanted, else NAN. */
double lh_eval_seconds(const lh_eval_setup *setup, double start_s);

/* Collective. Restores the state at the end of the prefill. */
lh_status lh_cache_restart(const lh_cache_at *at);

/* Collective. Decodes greedily from the session's state and appends at most max_new tokens, including the one that ends
 * the answer (an end token of the model, or one of `ends`). The last token is not fed back. */
typedef struct lh_eval_answer {
    const lh_tokens *ends; /* NULL: none */
    int64_t max_new;
    lh_eval_work *work; /* advances by max_new even if the answer is shorter */
} lh_eval_answer;
lh_status lh_eval_generate(lh_session *session, const lh_eval_answer *how, lh_tokens *out);

/* Appends the text of n ids without special tokens; *out is a string afterwards even if that is empty. */
lh_status lh_eval_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out);

#endif
