/* scheduler.h - continuous batching: waiting tasks, one prefilling task, and running sequences that decode together, a
 * token each in a step. A sequence joins when its prompt is done and finishes when its answer ends, at any step; each
 * has its own policy, sampling and length. The chunks of a prefill alternate with decode steps, so that a long prompt
 * delays no answer. A task is admitted when the forecast of its memory fits into the free memory. A context of several
 * tasks is prefilled and evicted once: each task continues in a fork of its cache. */
#ifndef LH_ENGINE_SCHEDULER_H
#define LH_ENGINE_SCHEDULER_H

#include "engine/context_store.h"
#include "engine/decode.h"

/* What prompts of several tasks begin with; borrowed until a task without it comes, or lh_schedule ends. */
typedef struct lh_context {
    lh_tokens prompt;
    const lh_policy *policy; /* evicts at its end, before a task's own tokens are seen */
    const lh_profiles *profiles;
    uint64_t seed;
    int64_t more;           /* maximum tokens that a task adds, with its answer */
    const char *checkpoint; /* of lh_task */
} lh_context;

/* A prompt and how it is answered; everything is borrowed until it is done. */
typedef struct lh_task {
    const lh_context *context; /* before the prompt: its policy, its seed; NULL: none. Tasks that share one follow each
                                  other, for one context is held at a time */
    lh_tokens prompt;          /* empty: the answer follows the context, and each task draws another one */
    const lh_policy *policy;   /* without a context, as profiles and seed */
    const lh_profiles *profiles; /* includes those that the policy names */
    uint64_t seed;               /* of the policy's random choices */
    const char *checkpoint;      /* file that keeps the prefill of the prompt (prefill_checkpoint.h), of no other task;
                                    NULL: none. It is read if it is there, and removed when the prefill is done; one
                                    that is of no use is a warning */
    lh_decode how;               /* `step` is called after steps of all sequences */
    lh_tokens *answer;           /* the tokens are appended, with the one that ends it */
    void *self;
    /* Follows the logits of the prompt, or of the context where the prompt is empty and this task is the first one of
     * it: [n, vocab] of the tokens from `first` on, on rank 0, NULL elsewhere; in order, on all ranks. May be NULL. */
    lh_status (*prompt_rows)(void *self, int64_t first, const float *logits, int64_t n);
    /* The prompt is in the cache and nothing is generated yet. May be NULL. */
    lh_status (*prefilled)(void *self, lh_session *session);
    /* The answer is complete; or `st` says why there is none, or no whole one, with its message (lh_error_message), the
     * same on all ranks: session may be NULL then. What this fails with ends the run. */
    lh_status (*done)(void *self, lh_session *session, lh_finish_reason finish, lh_status st);
} lh_task;

typedef struct lh_scheduler_options {
    int64_t max_running;     /* maximum number of running sequences, the prefilling one included */
    double prefill_share;    /* of the time that prefills get while others decode: above 0, at most 1 */
    lh_context_store *store; /* where contexts may be; NULL: none */
    double checkpoint_s;     /* every_s of prefills that are kept ... */
    const char *run;         /* ... and their run */
    /* A session that holds the context of all tasks, opened for `max_running` sequences (lh_session_options); its
     * forward pass is used. And its context; borrowed. NULL: contexts are prefilled as they come. */
    lh_session *session;
    const lh_context *context;
    void *self;
    /* The task that comes next, the same on all ranks; *out NULL: there is none any more. Called when there is room for
     * another sequence. It stays valid until it is done. Collective. */
    lh_status (*next)(void *self, lh_task **out);
    /* After every chunk of a prompt and every step, on all ranks; may be NULL. A failure, the same on all ranks, ends
     * the run. After LH_EINTERRUPTED a prefill that is kept comes to the end of its layer first, and into its file:
     * then it is called again, and fails again. */
    lh_status (*pulse)(void *self);
} lh_scheduler_options;

/* Work done. */
typedef struct lh_scheduler_figures {
    int64_t tasks, prompt_tokens, new_tokens, steps; /* prompt: prefilled; new: fed back; steps: of any number of
                                                        sequences */
    int64_t resumed;                                 /* prefills that went on from their file */
    int64_t stored;                                  /* contexts that were read from the store */
    double prefill_s, decode_s;
} lh_scheduler_figures;

/* Collective. Runs until there is no task any more. A task that cannot be answered alone (too long, no memory for its
 * prompt or its next token, NaN) is done with its status, and other tasks continue; a failure of a step, or on one
 * rank alone, ends the run: then running tasks are not done. *figures may be NULL. */
lh_status lh_schedule(lh_engine *engine, const lh_scheduler_options *options, lh_scheduler_figures *figures);

#endif
