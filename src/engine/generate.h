/* generate.h - the command `generate` as a call: answers a prompt, or several questions about one context, each from
 * the state after the context; optionally loads or saves the cache and writes keep sets and logits. */
#ifndef LH_ENGINE_GENERATE_H
#define LH_ENGINE_GENERATE_H

#include "engine/context_store.h"
#include "engine/decode.h"
#include "engine/prefill_checkpoint.h"
#include "text/thoughts.h"

/* Progress, called on every rank; any may be NULL. A status but LH_OK, the same on every rank, ends the run. */
typedef struct lh_generate_events {
    void *self;
    lh_status (*prefill)(void *self, int64_t done, int64_t total); /* tokens x layers */
    lh_status (*token)(void *self, int64_t answer, int32_t id, const char *text,
                       int64_t bytes);                        /* final text since the last call */
    int (*checkpoint_due)(void *self);                        /* of lh_checkpointing, for `resume` */
    void (*checkpoint_kept)(void *self, int64_t layers_done); /* all layers: the state after the prompt */
} lh_generate_events;

typedef struct lh_generate_request lh_generate_request;

/* What follows a run in its cache (a trace). Called on every rank, each may be collective; any but `begin` may be
 * NULL. */
typedef struct lh_generate_recorder {
    void *self;
    /* before anything is computed: sets what listens to the cache. LH_EUSAGE for a run that cannot be followed. */
    lh_status (*begin)(void *self, lh_engine *engine, const lh_generate_request *request, lh_kv_listener *listener);
    /* after the prompt, before a file is written or a question asked */
    lh_status (*prompt)(void *self, lh_session *session);
    /* after `tokens` tokens, a question or one of an answer, went through the model in so many seconds: the session has
     * the logits that follow the last of them */
    lh_status (*step)(void *self, lh_session *session, int64_t tokens, double seconds);
    /* after an answer: the session holds its question and its tokens */
    lh_status (*answer)(void *self, lh_session *session, int64_t answer);
} lh_generate_recorder;

struct lh_generate_request {
    lh_tokens prompt;           /* after a loaded cache it may be empty */
    int64_t asked;              /* tokens at the prompt's end that are a question; 0: none */
    const lh_tokens *questions; /* [question_count], each answered from the state after the prompt */
    int64_t question_count;     /* 0: the prompt itself is answered */
    int64_t max_new;            /* maximum tokens of an answer */
    int64_t left_out;           /* tokens that truncation left out of the prompt, for the result; rank 0 */
    int ignore_eos;
    int continues; /* 1: true: the answers continue the text of the prompt; false: they begin anew, as turns of a chat
                    */
    int splits_thoughts;      /* true: thoughts are no part of an answer's text (text/thoughts.h) */
    int continues_thoughts;   /* true: the prompt ends within thoughts, which the answer continues */
    lh_tokens ends;           /* ids that end an answer, besides the tokenizer's end tokens */
    const char *const *stops; /* texts that end an answer and are removed from it */
    int64_t stop_count;
    lh_sampling sampling;
    lh_tokens force; /* ids that replace sampled ones */
    int logprobs;    /* 1: answers have log-probabilities */
    /* NULL with load_cache: the policy of the cache. If its proxies are the question's tokens, their number is set
     * (lh_policy_ask), and the question is the end of the prompt. */
    const lh_policy *policy;
    const lh_profiles *profiles;                              /* includes those that the policy names */
    const char *load_cache, *save_cache, *keep_sets, *logits; /* files, NULL: none */
    int kept;                /* 1: the generation has the positions that are kept of the prompt */
    lh_context_store *store; /* of evicted caches: the prompt's is read from it, or kept in it; NULL: none. No
                                load_cache, given, keep_sets, logits and recorder */
    const char *given;       /* keep sets that replace the policy (given.h); NULL: none */
    int64_t logits_last;     /* rows of the prompt in `logits` */
    const char *resume; /* state of the run (generate_state.c): read if it exists, removed at the end; NULL: none; no
                           load_cache and no given */
    double resume_s;    /* seconds after which it is written again */
    const json_t *identity; /* options that the answers depend on, for the state; rank 0 */
    const char *run;        /* resolved options, JSON: stored with every file */
    const char *chat;       /* of the conversation in save_cache (chat_state.h), NULL or empty: none; rank 0 */
    lh_generate_events events;
    const lh_generate_recorder *recorder; /* NULL: none */
};

typedef struct lh_answer {
    lh_tokens ids;
    lh_buf text;             /* without special tokens and stop text; empty if the model has no tokenizer */
    int splits;              /* true: its thoughts are split off ... */
    int opened;              /* ... and its prompt opens them */
    lh_finish_reason finish; /* LH_FINISH_INTERRUPTED until the answer is complete */
    lh_buf logprobs; /* on rank 0, if requested: [ids.n] doubles, natural logarithms of the model's own probabilities */
} lh_answer;

typedef struct lh_generation_timing {
    double load_s, prefill_s, evict_s, decode_s;
    double prefill_tokens_per_s, decode_tokens_per_s;
} lh_generation_timing;

/* The arrays [ranks] are filled on every rank. */
typedef struct lh_generation {
    lh_answer *answers;
    int64_t answer_count;
    int64_t prompt_tokens, new_tokens; /* questions count as prompt; new: of all answers */
    lh_policy policy;
    const char *given; /* keep sets that replace the policy, borrowed; NULL: none */
    int64_t budget;    /* entries per KV head that the policy gives this prompt */
    int64_t left_out;  /* tokens that truncation left out of the prompt; rank 0 */
    int64_t chunk;     /* maximum number of tokens per chunk of the prompt */
    int64_t layers;
    lh_positions *kept; /* [layers] where asked, else NULL: positions of every KV head of the model, on every rank */
    int complete;       /* 1: the answers are whole, also where a file could not be written */
    int ranks;
    int64_t *entries, *entries_kept, *bytes, *bytes_kept, *bytes_allocated, *peak_bytes,
        *summary_bytes;            /* [ranks], after the prompt; peak: of the run */
    int64_t counted, counted_kept; /* entries of the model; a head stored on several ranks counts once */
    lh_generation_timing timing;
} lh_generation;

/* Tokens that a question and its answer may add after the prompt, at most. */
int64_t lh_generate_more(const lh_generate_request *request);

/* How many of so many questions decode together, each in a fork of the cache, where memory suffices; 0: a single one,
 * in the cache itself. */
int64_t lh_generate_forks(int64_t questions);

/* Collective. LH_EUSAGE for an impossible request (empty prompt, longer than the model allows, …). LH_EWRITE if a file
 * could not be written: where out->complete, the answers and the other files are there. */
lh_status lh_generate(lh_engine *engine, const lh_generate_request *request, lh_generation *out);
void lh_generation_clear(lh_generation *generation);

/* The text of an answer so far without its thoughts, and these; all is content where they are not split off. */
lh_thoughts lh_answer_parts(const lh_answer *answer, lh_text_stage stage);

/* The members of an answer in the object that `generate --json` prints. */
json_t *lh_answer_json(const lh_answer *answer);

/* That object (docs/commands.md); the first answer also at top level. */
lh_status lh_generation_json(const lh_engine *engine, const lh_generation *generation, json_t **out);

#endif
