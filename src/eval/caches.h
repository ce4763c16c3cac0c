/* caches.h - one prompt with the caches of many policies: every task of `eval` is built on this.
 *
 * One prefill fills the caches of all policies that evict at its end; a policy that evicts during prefill gets a
 * prefill of its own. A task visits the caches in turn, generates from each, and can go back to the end of the prefill
 * as often as it needs. */
#ifndef LH_EVAL_CACHES_H
#define LH_EVAL_CACHES_H

#include "engine/decode.h"
#include "policies/list.h"

/* Progress of a task, called on every rank with the number of tokens prefilled and generated; `advance` may be NULL. */
typedef struct lh_eval_progress {
    void *self;
    void (*advance)(void *self, int64_t done, int64_t total);
} lh_eval_progress;

typedef struct lh_eval_work {
    lh_eval_progress progress;
    int64_t done, total; /* tokens */
} lh_eval_work;

void lh_eval_advance(lh_eval_work *work, int64_t tokens);

/* Shows tokens of a step in progress without counting them; lh_eval_advance counts them when it is done. */
void lh_eval_show_part(const lh_eval_work *work, int64_t tokens);

/* A cache after the prefill of the prompt. */
typedef struct lh_cache_at {
    int64_t policy; /* index in the list */
    lh_session *session;
    int64_t cache; /* index in the session */
} lh_cache_at;

typedef struct lh_caches_request {
    const lh_policy_list *policies; /* includes the profiles */
    const lh_tokens *prompt;
    int64_t question; /* tokens at the end of the prompt that are the question, 0: none */
    int64_t more;     /* maximum number of tokens after the prompt */
    int64_t block;    /* of these, tokens of one forward pass (a question) */
    uint64_t seed;    /* of the policies' random choices */
    int64_t together; /* maximum number of caches per prefill (all are in memory at once); 0: all */
    lh_eval_work *work;
} lh_caches_request;

/* Collective. Calls `visit` once for every policy, in the order of the list; policies that evict during prefill come
 * last, each after a prefill of its own. On each call the session is in its state at the end of the prefill. */
typedef lh_status (*lh_cache_visit)(void *self, const lh_cache_at *at);
lh_status lh_caches_each(lh_engine *engine, const lh_caches_request *request, lh_cache_visit visit, void *self);

/* Number of prefills that lh_caches_each runs. */
int64_t lh_caches_prefills(const lh_policy_list *policies, int64_t together);

/* Collective. Restores the state at the end of the prefill. */
lh_status lh_cache_restart(const lh_cache_at *at);

/* Collective. Broadcasts rank 0's ids; on the other ranks *ids must be empty. */
lh_status lh_eval_share(lh_comm *comm, lh_tokens *ids);

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
