/* caches.h - one prompt, kept by many policies: what every task is built on. */
#ifndef LH_EVAL_CACHES_H
#define LH_EVAL_CACHES_H

#include "engine/decode.h"
#include "policies/list.h"

/* How far a task is; `done` may be NULL. Called on every rank with tokens taken in and generated. */
typedef struct lh_eval_progress {
    void *self;
    void (*advance)(void *self, int64_t done, int64_t total);
} lh_eval_progress;

typedef struct lh_eval_work {
    lh_eval_progress progress;
    int64_t done, total; /* tokens */
} lh_eval_work;

void lh_eval_advance(lh_eval_work *work, int64_t tokens);

/* Tell of tokens of something that is under way, without counting them: they are when it is done. */
void lh_eval_show_part(const lh_eval_work *work, int64_t tokens);

/* A cache after the prefill of the prompt. */
typedef struct lh_cache_at {
    int64_t policy; /* its number in the list */
    lh_session *session;
    int64_t cache; /* its number in the session */
} lh_cache_at;

typedef struct lh_caches_request {
    const lh_policy_list *policies; /* with its profiles */
    const lh_tokens *prompt;
    int64_t question; /* tokens at its end that are a question, 0: none */
    int64_t more;     /* tokens after the prompt at most */
    int64_t block;    /* of them, those that come at once */
    uint64_t seed;    /* of random choices */
    int64_t together; /* caches that one prefill fills at most, which need memory together; 0: all */
    lh_eval_work *work;
} lh_caches_request;

/* Collective. Call `visit` once for every policy, in the order of the list but for those that evict while they prefill:
 * these come last, each after a prefill of its own. The session is where it was at the end of the prefill. */
typedef lh_status (*lh_cache_visit)(void *self, const lh_cache_at *at);
lh_status lh_caches_each(lh_engine *engine, const lh_caches_request *request, lh_cache_visit visit, void *self);

/* Prefills that this takes. */
int64_t lh_caches_prefills(const lh_policy_list *policies, int64_t together);

/* Collective. Back to the end of the prefill. */
lh_status lh_cache_restart(const lh_cache_at *at);

/* Collective. Rank 0's ids to everybody; on the other ranks *ids is empty before. */
lh_status lh_eval_share(lh_comm *comm, lh_tokens *ids);

/* Collective. Greedy tokens from where the session is, appended: max_new at most, the one that ends the answer (an end
 * token of the model, or one of `ends`) included. The last one is not fed back. */
typedef struct lh_eval_answer {
    const lh_tokens *ends; /* NULL: none */
    int64_t max_new;
    lh_eval_work *work; /* advances by max_new, however many there are */
} lh_eval_answer;
lh_status lh_eval_generate(lh_session *session, const lh_eval_answer *how, lh_tokens *out);

/* The text of n ids without special tokens, appended; "" at least. */
lh_status lh_eval_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out);

#endif
