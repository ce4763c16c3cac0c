/* conversation.h - a conversation on one evicted context: the context is read (or loaded) once, then questions and
 * answers follow each other in the same cache, and a reset goes back to the state after the context. Used by the
 * command `chat`. All calls are collective unless stated otherwise. */
#ifndef LH_ENGINE_CONVERSATION_H
#define LH_ENGINE_CONVERSATION_H

#include "engine/context_store.h"
#include "engine/decode.h"

typedef struct lh_conversation lh_conversation;

typedef struct lh_conversation_options {
    lh_tokens context;           /* ids that are read first, borrowed for the opening; empty with load_cache */
    const char *load_cache;      /* a saved cache that replaces the context; NULL: none */
    const lh_policy *policy;     /* NULL with load_cache: the policy of the cache */
    const lh_profiles *profiles; /* includes those that the policy names; borrowed, as self is, until the end */
    lh_context_store *store;     /* where the context may be; NULL: none */
    int64_t room; /* tokens of questions and answers after the context; fewer if the model has fewer positions */
    uint64_t seed;
    void *self;
    /* Progress in tokens x layers, on all ranks after every chunk of a prefill; may be NULL. A failure, the same on
     * all ranks, ends the call. */
    lh_status (*prefill)(void *self, int64_t done, int64_t total);
} lh_conversation_options;

/* LH_EUSAGE for an empty context, or one that leaves no room; LH_ENOMEM before anything is computed. */
lh_status lh_conversation_open(lh_conversation **out, lh_engine *engine, const lh_conversation_options *options);
void lh_conversation_close(lh_conversation *c); /* NULL is fine */

/* Feed a question, as ids that follow the conversation so far, and decode its answer: how.max_new is lowered to the
 * remaining positions. A model with rotary factors that depend on the length of the run may read the conversation
 * again first, so that the answer is the same as in a single run. After an answer that how.token ends the conversation
 * continues. LH_EUSAGE, and nothing has changed, if the question leaves no room for an answer. */
lh_status lh_conversation_ask(lh_conversation *c, const lh_tokens *question, const lh_decode *how, lh_tokens *answer);

/* Back to the state after the context. */
lh_status lh_conversation_reset(lh_conversation *c);

/* Save the state so far; `run` and `chat` as for lh_session_write. LH_EWRITE: the conversation can continue. */
lh_status lh_conversation_save(lh_conversation *c, const char *path, const char *run, const char *chat);

/* Not collective. Tokens so far, and how many more there is room for. */
int64_t lh_conversation_tokens(const lh_conversation *c);
int64_t lh_conversation_room(const lh_conversation *c);

#endif
