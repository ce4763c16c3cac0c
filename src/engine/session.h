/* session.h - what the engine itself and the tasks of eval need of a session beyond longhaul.h: several caches filled
 * by one prefill, more rows of logits, cache files. Nothing about one prompt is kept elsewhere. */
#ifndef LH_ENGINE_SESSION_H
#define LH_ENGINE_SESSION_H

#include "engine/engine.h"
#include "kv/save.h"
#include "model/sampler.h"

typedef struct lh_session_options {
    const lh_policy *policy;
    /* Further caches that the same prefill fills, each as a policy of its own says, which evicts once at its end (or
     * not at all): NULL and 0 for none. See lh_session_switch. */
    const lh_policy *others;
    int64_t other_count;
    const lh_profiles *profiles; /* those that the policies name are in it; NULL where none does */
    int64_t prompt;              /* tokens that the first prefill will bring, 0 when a cache is restored */
    int64_t more;                /* tokens that are expected after it: questions and answers */
    int64_t length; /* tokens of the whole run, prompt and more together; some rotary scalings depend on it */
    int64_t rows;   /* lh_session_keep_logits at most; 0: one */
    int64_t block;  /* tokens of the longest lh_session_block; 0: there will be none */
    int restores;   /* 1: lh_session_restore, or lh_session_switch more than once, after a snapshot or a switch */
    uint64_t seed;  /* of the policy's random choices */
    const lh_kv_listener *listener; /* NULL: none */
} lh_session_options;

/* Collective, as all calls below unless said. LH_ENOMEM, before anything is computed, where the run will not fit on a
 * rank. */
lh_status lh_session_open(lh_session **out, lh_engine *engine, const lh_session_options *options);

/* After the prefill: work goes on with cache `cache` (0: the one of options.policy, then the others), from the state
 * that it had at the end of the prefill, any number of times. */
lh_status lh_session_switch(lh_session *s, int64_t cache);

/* How many of the last rows' logits are kept by the next call that takes in tokens (1 unless said), for
 * lh_session_logits. Not collective. */
void lh_session_keep_logits(lh_session *s, int64_t rows);

/* Not collective. */
const lh_engine *lh_session_engine(const lh_session *s);
lh_kv *lh_session_kv(const lh_session *s);
int64_t lh_session_chunk(const lh_session *s); /* tokens that go through a layer together at most: chosen when opened */

/* The state after what was taken in so far, to a file and back; `run`: options as JSON. */
lh_status lh_session_save(lh_session *s, const char *path, uint64_t seed, const char *run);
lh_status lh_session_load(lh_session *s, lh_saved_kv *file);

#endif
