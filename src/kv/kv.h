/* kv.h - the keys and values that a rank remembers of one sequence, over time: ragged, head-sharded, and evicted as a
 * policy says. cache/ stores the entries, evict/ decides which of them stay, kv/ decides when.
 *
 * Prefill is layer-major. For each layer: lh_kv_prefill_begin gives a view with room for the whole prompt; the caller
 * appends and attends chunk by chunk and hands every chunk's queries to lh_kv_record; lh_kv_prefill_end observes,
 * evicts and frees. Then blocks (a question) and single steps: lh_kv_reserve before all layers, lh_kv_room before each,
 * lh_kv_record where the layer wants rows, lh_kv_settle after all layers have seen the tokens. Positions are original
 * positions.
 *
 * Calls marked collective are made by every rank of the TP group, in the same order, and fail on all ranks or on none.
 * Other calls may fail on one rank alone: agree (lh_comm_agree) before the next collective. */
#ifndef LH_KV_KV_H
#define LH_KV_KV_H

#include "cache/keep_sets.h"
#include "evict/evict.h"
#include "exec/heads.h"
#include "policies/probes.h"

typedef struct lh_kv lh_kv;

/* Types of entries. A layer's entries have the type `prompt`, f32 or bf16, until its prefill ends; then they have the
 * type of lh_kv_kept_type, and are quantised if that is q8. */
typedef struct lh_kv_types {
    lh_dtype prompt, full, evicted; /* full: of caches that keep all entries; evicted: of caches that evict */
} lh_kv_types;

/* The type of the entries that a cache with this policy keeps after a prompt. */
lh_dtype lh_kv_kept_type(const lh_kv_types *types, const lh_policy *policy);

typedef struct lh_kv_shape {
    lh_heads heads;
    int64_t layers, head_dim;
    lh_kv_types types;
    float scale, softcap;   /* of the logits */
    int64_t window;         /* keys that a row of a sliding layer sees */
    const uint8_t *sliding; /* [layers], borrowed for the life of the cache; NULL: none slides */
    int64_t hidden;
    lh_order order; /* of sums of products: LH_ORDER_FIXED for the same bits on any number of ranks */
    /* borrowed; NULL where no policy will ask for them */
    const lh_projection *projections; /* [layers] */
    int64_t projection_bytes;         /* of the largest as plain numbers, if some have few bits, else 0 */
    const lh_rotation *rotations;     /* [layers]; a forward pass needs them */
    const float *score_weights;       /* device, [layers, kv_count, lh_learnt_numbers(head_dim)] */
    const int64_t *layer_shares;      /* [layers] of '--layer-budget learnt' (lh_layers_request); NULL: none */
    const lh_profiles *profiles;      /* those that the policy names are in it */
    lh_probe_leads leads;             /* of the probe tokens, if the policy has any */
    int64_t max_positions;            /* of the model: probe tokens have no others; 0: any number */
    const lh_keep_sets *given; /* keep sets that replace the policy's choice at the end of the prompt; NULL: none */
} lh_kv_shape;

/* The weights of a layer; NULL: there are none. */
const float *lh_kv_score_weights(const lh_kv_shape *shape, int64_t layer);

/* Rows of a layer for a chunk of a prompt, a question or a single token: of this rank's heads, in device memory. */
typedef struct lh_kv_rows {
    lh_query_rows queries;
    /* Appended keys and values before rounding to the type of the entries: [tokens, kv_count, head_dim], with a stride
     * of queries.q_ld; and the attention outputs of the queries: [tokens, q_count, head_dim]. NULL: there is no
     * listener */
    const float *keys, *values, *outputs;
} lh_kv_rows;

/* Callbacks of a cache (traces, keep sets, progress); any member may be NULL. Called on every rank. */
typedef struct lh_kv_listener {
    void *self;
    /* first position of the prompt with wanted rows in a layer; past its end: no rows are wanted, nor later ones */
    int64_t (*first_row)(void *self, int64_t layer);
    /* wanted rows, with the layer and its entries, theirs included; also after a failure, for it may be collective */
    lh_status (*rows)(void *self, const lh_evict_job *job, const lh_kv_rows *rows);
    /* at the end of a layer's prefill, before anything goes; also after a failure */
    lh_status (*whole)(void *self, const lh_evict_job *job);
    /* at the end of a layer's prefill, when attention scored its entries: before the selection */
    lh_status (*scored)(void *self, int64_t layer, const lh_evict_scores *scores);
    /* after the eviction of a layer at the end of prefill: the layer's view of kept entries */
    lh_status (*kept)(void *self, int64_t layer, const lh_ragged *view);
} lh_kv_listener;

/* LH_EINPUT, naming the file, when a profile of the policy is for another shape; LH_EUSAGE when the policy observes a
 * question and does not know how long it is (lh_policy_ask). */
lh_status lh_kv_open(lh_kv **out, const lh_exec *exec, const lh_kv_shape *shape, const lh_policy *policy);
void lh_kv_close(lh_kv *kv); /* NULL is fine */
void lh_kv_listen(lh_kv *kv, const lh_kv_listener *listener);

/* Seed of random choices, which also depend on layer, KV head, position and eviction; before lh_kv_begin. Default: 0.
 */
void lh_kv_seed(lh_kv *kv, uint64_t seed);

/* `kv` is filled by the prefill of `leader`, which begins the prompt, records rows and evicts for both. Both are
 * empty, of one shape and one context; kv's policy evicts once. Not for a leader that itself follows. kv is closed
 * first. */
lh_status lh_kv_follow(lh_kv *kv, lh_kv *leader);

/* Opens a cache in the state of `from`, which has had its prompt: with the same policy, seed and listener, its entries
 * in the same slots, and room for `more` tokens (as lh_kv_begin). A layer that never evicts shares the full blocks of
 * 256 entries with `from`; other layers are copied. `from` takes in nothing until its forks are closed, and is closed
 * after them: closing a fork and forking again restores its state. Not collective: agree afterwards. */
lh_status lh_kv_fork(lh_kv **out, lh_kv *from, int64_t more);

/* Copies the entries that a fork shares, after which it no longer needs its origin. Does nothing to a cache that is no
 * fork. Not collective: agree afterwards. */
lh_status lh_kv_unshare(lh_kv *kv);

/* ---- prefill ---- */

/* A prompt of `tokens` tokens, after which at most `more` tokens are expected (slack; more is possible, at the price of
 * a copy). Makes the budgets of all layers. The cache must be empty. LH_EUSAGE where a prompt so long, or the policy
 * for it, is impossible (lh_policy_check). */
lh_status lh_kv_begin(lh_kv *kv, int64_t tokens, int64_t more);

/* The layer's view for the prompt: device memory, len 0, room for all its tokens. */
lh_status lh_kv_prefill_begin(lh_kv *kv, int64_t layer, lh_ragged **view);

/* Replaces chunks: the keys and values of all tokens of the prompt, [kv_count, tokens, head_dim] of the entries' type
 * in host memory, keys rotated by their positions. For policies that observe no rows, or keep sets that are given. Not
 * collective. */
lh_status lh_kv_fill(lh_kv *kv, int64_t layer, const void *keys, const void *values);

/* Before the chunk that begins at token `at` of a layer's prefill: how many of the at most *tokens tokens come next.
 * Where the policy evicts while it prefills (`block:n`), it does so here when it is due, and makes room; *view may be
 * another one then. Collective in that case. */
lh_status lh_kv_prefill_next(lh_kv *kv, int64_t layer, int64_t at, int64_t *tokens, lh_ragged **view);

/* The first position with rows that lh_kv_record reads: the caller need not compute log-sum-exps of earlier rows. No
 * rows: `tokens` in prefill, afterwards INT64_MAX. */
int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer);

/* True if lh_kv_record reads the hidden states of these rows (lh_query_rows). */
int lh_kv_wants_hidden(const lh_kv *kv, int64_t layer);

/* A chunk's queries with their log-sum-exps, for all its tokens; the view ends with their keys. Stores or counts the
 * rows that the policy observes, and calls the listener; collective where running statistics meet split groups. The
 * next agreement reports a failure. */
void lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);

/* Statistics of the prompt's rows that were counted elsewhere (a trace has them); they replace recorded ones:
 * [kv_count, tokens] device memory, NULL where not counted. After the layer's last row. */
typedef struct lh_kv_columns {
    const float *sums, *squares, *counts;
} lh_kv_columns;
void lh_kv_put_columns(lh_kv *kv, int64_t layer, const lh_kv_columns *columns);

/* Probe tokens (policies/probes.h): after the prompt's tokens every layer takes in the segments 0, 1, … of them.
 * probe_begin gives the view to which a segment's keys and values are appended and its rows attend, which lh_kv_record
 * gets; after its last row probe_end drops its entries. No segments: the policy has no probe tokens. Failures are
 * latched. */
int64_t lh_kv_probe_segments(const lh_kv *kv);
lh_probe_segment lh_kv_probe_segment(const lh_kv *kv, int64_t i);
int64_t lh_kv_probe_tokens(const lh_kv *kv);
void lh_kv_probe_begin(lh_kv *kv, int64_t layer, int64_t segment, lh_ragged **view);
void lh_kv_probe_end(lh_kv *kv, int64_t layer);

/* Collective. Observe, evict, free. LH_EFILE when the recorded log-sum-exps are not finite: the weights are damaged. */
lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer);

/* ---- blocks and steps ---- */

/* Collective. Memory for `tokens` tokens in all layers, so that no rank runs out of it between the collectives of a
 * forward pass. Ranks communicate only when their reserved memory is used up. */
lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens);

/* Room for `tokens` more entries in every head of a layer; *view may be another one than before. Not collective, and
 * allocates nothing within the reserved memory. */
lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view);

/* Memory for the logits of a single row with the entries of a layer (the view of lh_kv_room), which attention may
 * write for lh_kv_record. Without them lh_kv_record computes the logits, rounding queries as lh_column_stats_args
 * says. NULL: not needed. Not collective: the next agreement reports a failure. */
lh_row_logits lh_kv_row_logits(lh_kv *kv, int64_t layer);

/* As the shape has it. */
const lh_rotation *lh_kv_rotation(const lh_kv *kv, int64_t layer);

/* True if keys are rotated by slots: then keys are appended unrotated after the prefill, and rows attend to the view
 * of lh_kv_attended. The rotary position of a token: its position, or its slot in this layer. */
int lh_kv_rotates_by_slot(const lh_kv *kv);
int64_t lh_kv_rotary_position(const lh_kv *kv, int64_t layer, int64_t position);

/* The view that rows attend to, after the tokens up to position `seen` were appended to the view of lh_kv_room: the
 * same view, or one with keys that are rotated by their slots; until the next call. */
lh_status lh_kv_attended(lh_kv *kv, int64_t layer, int64_t seen, lh_ragged **view);

/* Collective. All layers have taken in `tokens` tokens. LH_KV_BLOCK: a question; if decoding evicts, one eviction
 * follows. LH_KV_STEP: a generated token that was fed back; evicts at every m-th. Sliding layers drop the entries that
 * the next row cannot see. */
typedef enum lh_kv_taken { LH_KV_BLOCK, LH_KV_STEP } lh_kv_taken;
lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens);

/* CUDA graphs. can_capture: true if every step enqueues the same work between lh_kv_reserve and lh_kv_settle, but for
 * numbers in device memory. epoch: changes when a captured step is stale, on all ranks even if memory moved on one
 * rank only. replayed: called after a replay, which skips the calls of a step. */
int lh_kv_can_capture(const lh_kv *kv);
int64_t lh_kv_graph_epoch(const lh_kv *kv);
void lh_kv_graph_replayed(lh_kv *kv);

int64_t lh_kv_seen(const lh_kv *kv); /* tokens seen: the position of the next one */

#endif
