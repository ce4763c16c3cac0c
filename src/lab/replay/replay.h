/* replay.h - applies policies at budgets to traces, without the model, by the engine's own code (evict/), and analyses
 * their keep sets. Layers are distributed over ranks, and a rank holds one layer at a time. */
#ifndef LH_LAB_REPLAY_REPLAY_H
#define LH_LAB_REPLAY_REPLAY_H

#include "cache/keep_sets.h"
#include "engine/engine.h"
#include "lab/replay/analysis.h"
#include "policies/list.h"

typedef struct lh_replay lh_replay;

/* Reference rows: rows after the prompt, if the trace has any (auto), or rows of the prompt. */
typedef enum lh_replay_judge { LH_JUDGE_AUTO, LH_JUDGE_DECODE, LH_JUDGE_PROMPT } lh_replay_judge;

typedef struct lh_replay_request {
    const char *const *traces; /* [trace_count], of the same model */
    int64_t trace_count;
    const lh_policy_list *policies;     /* `full` is skipped; the oracle is added */
    const lh_analysis *const *analyses; /* ends with NULL */
    lh_replay_judge judge;
    int64_t judge_rows;    /* at most so many rows, evenly spaced */
    const char *keep_sets; /* a folder for keep sets (keep_sets.h), one file for each policy and budget; NULL: none */
    const char *run;       /* resolved options, JSON */
    lh_comm *comm;
    const float *score_weights;  /* host, [layers, kv_heads, numbers] (model/score_weights.h); NULL: none */
    const int64_t *layer_shares; /* as well: [layers] */
    /* Continues the prompt with the kept entries; borrowed, on all ranks of comm. NULL: figures of next tokens
     * (lh_analysis.continued) stay 0. */
    lh_engine *engine;
    const lh_tokens *continuation; /* forced after the prompt; NULL: the recorded questions and answers */
    void *self;
    void (*continued)(void *self, int64_t done, int64_t total); /* policies at budgets of a trace; NULL: none */
    void (*progress)(void *self, int64_t done, int64_t total);  /* layers of this rank; NULL: none */
} lh_replay_request;

/* Names the data that the trace lacks to replay a policy; NULL: none. */
const char *lh_replay_missing(const lh_trace_file *trace, lh_replay_judge judge, const lh_policy *policy);

/* Collective. LH_EUSAGE if the traces lack data that a policy observes, naming policy and level; LH_EFILE. */
lh_status lh_replay_run(lh_replay **out, const lh_replay_request *request);
void lh_replay_close(lh_replay *replay); /* NULL is fine */

/* On rank 0: the analysis file. */
lh_status lh_replay_write(const lh_replay *replay, const char *path);

/* Work of all ranks: entries scored (entries x KV heads x layers x policies x budgets), and seconds, without the
 * model's. */
typedef struct lh_replay_pace {
    int64_t entries;
    double seconds;
} lh_replay_pace;
lh_replay_pace lh_replay_pace_of(const lh_replay *replay);

/* Names the policies that evicted while decoding, and the run that recorded their rows; "": none. */
const char *lh_replay_decoding(const lh_replay *replay);

/* A figure of policies and budgets, as means over its other dimensions: [policies, budgets]; NAN: none. */
const lh_study *lh_replay_study(const lh_replay *replay);
const double *lh_replay_values(const lh_replay *replay, const char *figure); /* all of them; NULL: not analysed */
lh_status lh_replay_mean(const lh_replay *replay, const char *figure, double *out);

/* On rank 0: the figure `answer-nll` of the full cache, NAN without a model. */
double lh_replay_full_nll(const lh_replay *replay);

#endif
