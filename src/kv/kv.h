/* kv.h - the keys and values that a rank remembers of one sequence: ragged, head-sharded, and evicted as a policy says.
 *
 * Prefill is layer-major. For each layer: lh_kv_prefill_begin gives a view with room for the whole prompt; the caller
 * appends and attends chunk by chunk and hands every chunk's queries to lh_kv_record; lh_kv_prefill_end observes,
 * evicts and frees. Then blocks (a question) and single steps: lh_kv_reserve before all layers, lh_kv_room before each,
 * lh_kv_record where the layer wants rows, lh_kv_settle after all layers have seen the tokens. Positions are original
 * positions.
 *
 * Calls marked collective are made by every rank of the TP group, in the same order, and fail on all ranks or on none.
 * The others may fail on one rank alone: agree (lh_comm_agree) before the next collective. */
#ifndef LH_KV_KV_H
#define LH_KV_KV_H

#include <stdint.h>

#include "exec/exec.h"
#include "exec/heads.h"
#include "policies/policy.h"
#include "policies/profile.h"

typedef struct lh_kv lh_kv;

/* The output projection of a layer, for policies that weigh values by what it makes of them: this rank's columns. */
typedef struct lh_kv_projection {
    const void *w; /* [hidden, q_count * head_dim] with `ld` */
    lh_dtype type;
    int64_t ld;
} lh_kv_projection;

/* How queries and keys of a layer are rotated. */
typedef struct lh_kv_rotation {
    const float *inv_freq; /* [rotary / 2], device */
    int64_t rotary;        /* dimensions */
    float scale;
} lh_kv_rotation;

typedef struct lh_kv_shape {
    lh_heads heads;
    int64_t layers, head_dim;
    lh_dtype type;          /* of the entries: f32 or bf16 */
    float scale, softcap;   /* of the logits */
    int64_t window;         /* keys that a row of a sliding layer sees */
    const uint8_t *sliding; /* [layers], borrowed for the life of the cache; NULL: none slides */
    int64_t hidden;
    /* borrowed; NULL where no policy will ask for them */
    const lh_kv_projection *projections; /* [layers] */
    const lh_kv_rotation *rotations;     /* [2]: of layers that do not slide, and of those that do */
    const lh_profiles *profiles;         /* those that the policy names are in it */
} lh_kv_shape;

/* The scores of one layer's eviction, on this rank: [kv_count, ld], of slots in the order of the view. Device memory
 * that is valid during the call. */
typedef struct lh_kv_scores {
    const lh_ragged *view; /* before the eviction */
    const float *raw;      /* before pooling, NULL where nothing is pooled or heads are joined after it */
    const float *scores;   /* what is ranked */
    const uint8_t *state;  /* lh_entry_state before the selection */
    int64_t ld;
} lh_kv_scores;

/* What the cache tells while it works (traces, keep sets, progress); any member may be NULL. Called on every rank. */
typedef struct lh_kv_listener {
    void *self;
    /* at the end of a layer's prefill, when attention scored its entries: before the selection */
    lh_status (*scored)(void *self, int64_t layer, const lh_kv_scores *scores);
    /* after the eviction of a layer at the end of prefill: the layer's view as it is kept */
    lh_status (*kept)(void *self, int64_t layer, const lh_ragged *view);
} lh_kv_listener;

/* LH_EINPUT, naming the file, when a profile of the policy is for another shape; LH_EUSAGE when the policy observes a
 * question and was not told how long it is (lh_policy_ask). */
lh_status lh_kv_open(lh_kv **out, const lh_exec *place, const lh_kv_shape *shape, const lh_policy *plan);
void lh_kv_close(lh_kv *kv); /* NULL is fine */
void lh_kv_listen(lh_kv *kv, const lh_kv_listener *listener);

/* What random choices are keyed by, beside layer, KV head, position and eviction; before lh_kv_begin. 0 and 0 unless
 * said. */
void lh_kv_seed(lh_kv *kv, uint64_t seed, uint32_t request);

/* `kv` is filled by the prefill of `leader`, which does what is said below of a prompt for both: begins it, hands on
 * the rows, evicts. Both are empty, of one shape and one place; kv's policy evicts once. Not for a leader that itself
 * follows. kv is closed first. */
lh_status lh_kv_follow(lh_kv *kv, lh_kv *leader);

/* Begin: a prompt of `tokens` tokens, after which at most `more` tokens are expected (slack; more is possible, at the
 * price of a re-copy). Makes the budgets of all layers. The cache must be empty. */
lh_status lh_kv_begin(lh_kv *kv, int64_t tokens, int64_t more);

/* The layer's view for the prompt: device memory, len 0, room for all its tokens. */
lh_status lh_kv_prefill_begin(lh_kv *kv, int64_t layer, lh_ragged **view);

/* Before the chunk that begins at token `at` of a layer's prefill: how many of the at most *tokens tokens come next.
 * Where the policy evicts while it prefills (`block:n`), it does so here when it is due, and makes room; *view may be
 * another one then. Collective in that case. */
lh_status lh_kv_prefill_next(lh_kv *kv, int64_t layer, int64_t at, int64_t *tokens, lh_ragged **view);

/* A chunk's queries, rotated ([tokens, q_count, head_dim], rows q_ld apart) and their log-sum-exp [tokens, q_count]
 * over all keys that the row sees; `first` is the position of its first row, positions[tokens] (device) are those of
 * all. The chunk's keys are in the view, and nothing behind them. Keeps or counts what the policy observes; collective
 * where statistics go on and groups are split.
 * `lh_kv_wants_rows`: the first position whose rows it will look at, so that the caller need not compute log-sum-exps
 * before; in prefill `tokens` when it wants none, afterwards INT64_MAX. */
typedef struct lh_kv_rows {
    const float *q, *lse;
    lh_row_logits logits; /* of a single row, from lh_kv_row_logits */
    const int32_t *positions;
    int64_t first, tokens, q_ld;
} lh_kv_rows;
int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer);
lh_status lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);

/* Where the attention of a single row may leave its logits with the entries of a layer (those of lh_kv_room, appended
 * to) for lh_kv_record, which works them out otherwise, and then rounds queries as lh_column_stats_args says; NULL
 * where nobody looks at them. Not collective: what fails is told by the next agreement. */
lh_row_logits lh_kv_row_logits(lh_kv *kv, int64_t layer);

/* Collective. Observe, evict, free. LH_EFILE when the recorded log-sum-exps are not finite: the weights are damaged. */
lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer);

/* Collective. Memory for `tokens` tokens in all layers, so that no rank runs out of it between the collectives of a
 * forward pass. Ranks talk only when what they were sure of is used up. */
lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens);

/* Room for `tokens` more entries in every head of a layer; *view may be another one than before. Not collective, and
 * allocates nothing of what was reserved. */
lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view);

/* The position by which the token at `position` is rotated: its own, or with slot positions the slot that it gets in
 * this layer; in a sliding one that behind a whole window. After the prefill keys are then appended as they are, not
 * rotated. */
int64_t lh_kv_slot_of(const lh_kv *kv, int64_t layer, int64_t position);
int lh_kv_by_slots(const lh_kv *kv);

/* The view that rows attend to, after the tokens up to position `seen` were appended to that of lh_kv_room: the same,
 * or with keys that are turned by their slots; until the next call. */
lh_status lh_kv_turned(lh_kv *kv, int64_t layer, int64_t seen, lh_ragged **view);

/* Collective. All layers have taken in `tokens` tokens. LH_KV_BLOCK: a question; if decoding evicts, one eviction
 * follows. LH_KV_STEP: a generated token that was fed back; evicts at every m-th. Sliding layers lose what the next row
 * cannot see. */
typedef enum lh_kv_taken { LH_KV_BLOCK, LH_KV_STEP } lh_kv_taken;
lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens);

/* Recorded steps (lh_stream_record). Whether what a step does on the device between lh_kv_reserve and lh_kv_settle is
 * the same at every step but for what lies on the device; a number that grows whenever it works with other memory; and
 * what is said in place of the calls of a step when its recorded work is run again. */
int lh_kv_records(const lh_kv *kv);
int64_t lh_kv_moves(const lh_kv *kv);
void lh_kv_again(lh_kv *kv);

/* What went wrong with the rows that were counted since it was last asked, and is not told by the next agreement then.
 */
lh_status lh_kv_take_counting(lh_kv *kv);

int64_t lh_kv_seen(const lh_kv *kv); /* tokens seen: the position of the next one */

/* Remember this state and come back to it, any number of times: every question starts from the state after the context.
 * The entries come back in the same slots. Layers that evict afterwards are copied, once, before they do. */
lh_status lh_kv_mark(lh_kv *kv);
lh_status lh_kv_rewind(lh_kv *kv);

/* Figures. entries: this rank's heads; counted: those that no lower rank counts (sum over ranks = the model's). */
typedef struct lh_kv_stats {
    int64_t entries_seen; /* tokens seen x KV heads x layers, of this rank */
    int64_t entries_held, entries_counted;
    int64_t bytes_held;     /* entries_held x 2 x head_dim x element size */
    int64_t bytes_capacity; /* allocated pools: slack, positions, statistics and what a mark saved included */
    int64_t bytes_full;     /* what `full` would hold: entries_seen x … */
    int64_t summary_bytes;  /* sent in score summaries, this rank, so far */
    int64_t evictions;      /* while decoding, so far: settlements that evicted */
    double evict_s;         /* spent in observation, selection and compaction */
} lh_kv_stats;
lh_status lh_kv_stats_of(lh_kv *kv, lh_kv_stats *out);

/* Budget of a layer in entries per KV head (after lh_kv_begin). */
int64_t lh_kv_layer_budget(const lh_kv *kv, int64_t layer);

/* The layer's view as it is now: borrowed until the next call on the cache. */
const lh_ragged *lh_kv_view(const lh_kv *kv, int64_t layer);

/* Positions held by every head of a layer, of all ranks, on rank 0 (elsewhere empty): ascending within a head.
 * Collective. Arrays are new memory of the caller. */
typedef struct lh_kv_positions {
    int64_t heads;
    int64_t *offsets;   /* [heads + 1] */
    int32_t *positions; /* [offsets[heads]] */
} lh_kv_positions;
lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_kv_positions *out);
void lh_kv_positions_clear(lh_kv_positions *positions);

/* Memory that a prompt will take on this rank, in bytes, exactly; adaptive heads are taken as uniform. What operations
 * take as scratch is not in it. */
typedef struct lh_kv_forecast {
    int64_t held;      /* pools after prefill, slack included */
    int64_t one_layer; /* the layer that is being prefilled, whole; 0 when no layer evicts */
    int64_t observed;  /* rows, scores and states while a layer is evicted */
    int64_t decoding;  /* rows, scores and states of evictions while decoding */
    int64_t saved;     /* what a mark sets aside (lh_kv_mark) when decoding evicts */
    int64_t token; /* where decoding evicts, each token of the longest block behind the prompt, for which pools grow */
    int64_t moved; /* the largest layer, which is there twice while its pool grows; these three are in no other */
    int64_t peak;  /* the most at any moment of prefill */
    int64_t entries; /* kept entries of this rank's heads */
} lh_kv_forecast;
lh_status lh_kv_plan(const lh_kv_shape *shape, const lh_policy *plan, int64_t tokens, int64_t more,
                     lh_kv_forecast *out);

#endif
