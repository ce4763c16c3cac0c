/* generate_impl.h - a run of `generate`, and what its files call of each other. Everybody else includes generate.h. */
#ifndef LH_ENGINE_GENERATE_IMPL_H
#define LH_ENGINE_GENERATE_IMPL_H

#include "base/status.h"
#include "engine/answer_text.h"
#include "engine/generate.h"
#include "engine/logits_file.h"

typedef struct lh_answer_writer lh_answer_writer;

typedef struct lh_generate_run {
    lh_engine *engine;
    const lh_generate_request *request;
    lh_generation *out;
    lh_session *session;
    lh_saved_kv cache;
    lh_keep_sets sets, given;
    lh_logits_file *logits;
    lh_failures unwritten; /* files that could not be written, the same on all ranks */
    int evicts_decoding;
    int64_t layers_before;     /* layers of the prefill that another run has finished */
    int stored;                /* true: `cache` is that of the prompt, from the store of contexts */
    int resumes;               /* true: `cache` is the state of an interrupted run after its prompt */
    lh_tokens known;           /* answer of that run, which its cache holds */
    double state_s;            /* time of the newest state */
    int state_warned;          /* true: it could not be written */
    lh_answer_writer *writers; /* [answer_count] */
    int64_t telling;           /* the answer that the listener hears; it has heard those before it */
    double decode_s;
    int64_t decoded; /* tokens fed back */
} lh_generate_run;

/* An answer while its tokens come. Several answers may grow together: the listener hears them in their order. */
struct lh_answer_writer {
    lh_generate_run *run;
    int64_t index;
    lh_session *session; /* that has the logits of its next token */
    lh_answer *answer;
    lh_answer_text text;
    lh_buf held;  /* lh_final_text of each token */
    int64_t told; /* of them */
    int ended;
    double fed_s; /* when the last token began its way through the model */
};

lh_status lh_writers_open(lh_generate_run *run);
void lh_writers_close(lh_generate_run *run);

/* How the answer is decoded. */
lh_decode lh_writer_decode(lh_answer_writer *writer);

/* The answer is complete. */
lh_status lh_writer_end(lh_answer_writer *writer);

/* Those that the policy of the run names: the request's, or the ones of the cache that is loaded. */
const lh_profiles *lh_generate_profiles(const lh_generate_run *run);

/* The state of a resumable run (generate_state.c). Collective but for the first.
 * open: looks for a state with a cache, and opens it as run->cache. load: checks it and loads it into the session.
 * write: after the prompt (fed 0), or after `fed` fed tokens of a single answer; a state that cannot be written is a
 * warning. update: the same when it is due. */
lh_checkpointing lh_generate_checkpointing(const lh_generate_run *run);
lh_status lh_generate_open_state(lh_generate_run *run);
lh_status lh_generate_load_state(lh_generate_run *run);
lh_status lh_generate_write_state(lh_generate_run *run, int64_t fed);
lh_status lh_generate_update_state(lh_generate_run *run, int64_t fed);

/* Collective. All questions together, each in a fork of the session (generate_together.c). */
lh_status lh_generate_together(lh_generate_run *run);

/* Collective where the recorder is; and for `logits`. Does nothing unless requested. */
lh_status lh_generate_record_step(const lh_generate_run *run, int64_t tokens, double began_s);
lh_status lh_generate_write_logits(const lh_generate_run *run);

#endif
