/* session.h - a session beyond longhaul.h, as the engine itself and the tasks of eval use it: several caches filled by
 * one prefill, more rows of logits, cache files. A session holds all state of one prompt; the engine holds none.
 *
 * A snapshot leaves the cache unchanged: later tokens go to a fork of it (lh_kv_fork), opened with the first of them,
 * and restoring closes that fork. */
#ifndef LH_ENGINE_SESSION_H
#define LH_ENGINE_SESSION_H

#include "engine/engine.h"
#include "kv/save.h"
#include "model/sampler.h"

typedef struct lh_session_options {
    const lh_policy *policy; /* copied */
    /* Policies of further caches that the same prefill fills; these must evict once at its end, or not at all. NULL and
     * 0: none. See lh_session_switch. */
    const lh_policy *others;
    int64_t other_count;
    const lh_keep_sets *const *given; /* [1 + other_count], each replaces the choice of a policy, or NULL; NULL: none */
    const lh_profiles *profiles;      /* includes those that the policies name, copied; NULL if none does */
    int64_t prompt;                   /* tokens of the first prefill; 0 if a cache is loaded */
    int64_t more;                     /* maximum number of tokens after it: questions and answers */
    int64_t fork_more;                /* tokens of `more` in a fork: after a snapshot or a switch, or of the longest
                                         lh_session_fork; 0: there are no forks */
    int64_t length;                   /* tokens of the whole run, prompt and more together */
    int64_t rotates_for;              /* tokens of the run that the rotary factors are chosen for; 0: `length` */
    int64_t rows;                     /* maximum of lh_session_keep_logits; 0: one */
    int64_t sequences;                /* that step together with its forward pass: itself and its forks; 0: one */
    int64_t block;                    /* maximum tokens of a lh_session_block, in forks too; 0: it is not called */
    int bounded;   /* true: calls beyond `more`, `fork_more` and `block` are refused; false: memory grows with them */
    uint64_t seed; /* of the policy's random choices */
    const lh_kv_listener *listener; /* NULL: none */
    lh_forward *forward;            /* of several sessions, one call after the other, borrowed; NULL: its own */
    lh_session *beside;             /* whose forward pass is borrowed, and which is freed after this one; NULL: none */
} lh_session_options;

/* Maximum bytes of a session on this rank, without the workspace of the forward pass. */
typedef struct lh_session_bytes {
    int64_t prompt; /* while the prompt is prefilled; 0: no prompt */
    int64_t after;  /* during questions and answers, with one fork */
    int64_t fork;   /* of each fork */
} lh_session_bytes;

/* Not collective. */
lh_status lh_session_forecast(lh_session_bytes *out, const lh_engine *engine, const lh_session_options *options);

/* Collective, as all calls below unless stated otherwise. LH_ENOMEM, before anything is computed, if the run does not
 * fit on a rank; where the forward pass is borrowed its owner sees to that. */
lh_status lh_session_open(lh_session **out, lh_engine *engine, const lh_session_options *options);

/* Keeps the logits of the last row, with which every later fork begins, so that an answer may follow at once. */
lh_status lh_session_hold_logits(lh_session *s);

/* A prompt with known entries, read layer by layer. */
typedef struct lh_session_prompt {
    const int32_t *ids;
    int64_t n;
    const float *logits; /* [vocab] of the last token */
    void *self;
    /* writes the layer's keys and values of this rank's KV heads, [kv_count, n, head_dim] of the entries' type */
    lh_status (*read)(void *self, int64_t layer, void *keys, void *values);
} lh_session_prompt;

/* lh_session_prefill in pieces, between which other sessions with the same forward pass may work; *prefill as
 * lh_prefill_open says, and closed before lh_session_end_prefill, which makes the session ready. */
lh_status lh_session_begin_prefill(lh_session *s, const int32_t *ids, int64_t n, lh_prefill **prefill);
lh_status lh_session_end_prefill(lh_session *s);

/* Replaces lh_session_prefill where policies observe no rows or keep sets are given: leaves the session as after a
 * prefill that made these entries, without a forward pass. */
lh_status lh_session_fill(lh_session *s, const lh_session_prompt *prompt);

/* Continues with cache `cache` (0: the cache of options.policy, then the caches of options.others) from its state
 * at the end of the prefill, in a fork of it; may be called any number of times, the first time right after the
 * prefill. */
lh_status lh_session_switch(lh_session *s, int64_t cache);

/* lh_session_sample for a sampling of this library. */
lh_status lh_session_draw(lh_session *s, const lh_sampling *sampling, int64_t step, int32_t *id);

/* Sets the number of last rows of logits that the next prefill or block of the forward pass keeps for
 * lh_session_logits (default 1). Not collective. */
void lh_session_keep_logits(lh_session *s, int64_t rows);

/* Not collective. */
const lh_tokens *lh_session_tokens(const lh_session *s); /* all tokens so far */
const lh_engine *lh_session_engine(const lh_session *s);
lh_forward *lh_session_forward(const lh_session *s); /* its own, or borrowed */
lh_kv *lh_session_kv(const lh_session *s);
const lh_session_options *lh_session_options_of(const lh_session *s);
int64_t lh_session_chunk(const lh_session *s); /* maximum number of tokens per chunk, chosen on opening */

/* Write the state after all tokens so far to a file, and read it back. `about`: seed, run, chat, identity and answer of
 * the file; its texts on rank 0. */
lh_status lh_session_write(lh_session *s, const char *path, const lh_cache_extra *about);
lh_status lh_session_read(lh_session *s, lh_saved_kv *file);

#endif
