/* generate.h - answers a prompt, or many questions about one context: the command `generate` as a call. */
#ifndef LH_ENGINE_GENERATE_H
#define LH_ENGINE_GENERATE_H

#include "engine/decode.h"

/* Progress, called on every rank; any may be NULL. */
typedef struct lh_generate_events {
    void *self;
    void (*prefill)(void *self, int64_t done, int64_t total); /* tokens x layers */
    void (*token)(void *self, int64_t answer, int32_t id, const char *text,
                  int64_t bytes); /* text that became certain */
} lh_generate_events;

typedef struct lh_generate_request {
    lh_tokens prompt;           /* after a loaded cache it may be empty */
    const lh_tokens *questions; /* [question_count], each answered from the state after the prompt */
    int64_t question_count;     /* 0: the prompt itself is answered */
    int64_t max_new;            /* tokens an answer has at most */
    int ignore_eos;
    lh_tokens ends;           /* ids that end an answer, besides the tokenizer's end tokens */
    const char *const *stops; /* texts that end an answer, and are not part of it */
    int64_t stop_count;
    lh_sampling sampling;
    lh_tokens force; /* ids fed in place of the sampled ones */
    /* NULL with load_cache: the cache's own. One whose proxies are the question's tokens knows how many these are
     * (lh_policy_ask), and the question is the end of the prompt. */
    const lh_policy *policy;
    const lh_profiles *profiles;                              /* those that it names are in it */
    const char *load_cache, *save_cache, *keep_sets, *logits; /* files, NULL: none */
    int64_t logits_last;                                      /* rows of the prompt in `logits` */
    const char *run;                                          /* resolved options, JSON: stored with every file */
    lh_generate_events events;
} lh_generate_request;

typedef struct lh_answer {
    lh_tokens ids;
    lh_buf text; /* without special tokens and what a stop text cut off; empty when the model has no tokenizer */
    lh_finish_reason finish;
} lh_answer;

typedef struct lh_generation_timing {
    double load_s, prefill_s, evict_s, decode_s;
    double prefill_tokens_per_s, decode_tokens_per_s;
} lh_generation_timing;

/* Arrays of ranks are filled on every rank. */
typedef struct lh_generation {
    lh_answer *answers;
    int64_t answer_count;
    int64_t prompt_tokens, new_tokens; /* questions count as prompt; new: of all answers */
    lh_policy policy;
    int64_t budget; /* entries per KV head that the policy gives this prompt */
    int64_t chunk;  /* tokens of the prompt that went through a layer together at most */
    int ranks;
    int64_t *entries, *entries_kept, *bytes, *bytes_kept, *bytes_allocated, *peak_bytes,
        *summary_bytes;            /* [ranks], after the prompt; peak: of the run */
    int64_t counted, counted_kept; /* entries of the model: a head that lies on several ranks once */
    lh_generation_timing timing;
} lh_generation;

/* Collective. LH_EUSAGE where the request cannot be (empty prompt, longer than the model allows, …). */
lh_status lh_generate(lh_engine *engine, const lh_generate_request *request, lh_generation *out);
void lh_generation_clear(lh_generation *generation);

/* The object that `generate --json` prints (docs/commands.md). Answer 0 also at the top. */
lh_status lh_generation_json(const lh_engine *engine, const lh_generation *generation, json_t **out);

#endif
