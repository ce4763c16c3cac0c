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
 * The others may fail on one rank alone: agree (lh_comm_agree) before the next collective. */
#ifndef LH_KV_KV_H
#define LH_KV_KV_H

#include "cache/keep_sets.h"
#include "evict/evict.h"
#include "exec/heads.h"

typedef struct lh_kv lh_kv;

typedef struct lh_kv_shape {
    lh_heads heads;
    int64_t layers, head_dim;
    lh_dtype type;          /* of the entries: f32 or bf16 */
    float scale, softcap;   /* of the logits */
    int64_t window;         /* keys that a row of a sliding layer sees */
    const uint8_t *sliding; /* [layers], borrowed for the life of the cache; NULL: none slides */
    int64_t hidden;
    lh_order order; /* of sums of products: LH_ORDER_FIXED for the same bits on any number of ranks */
    /* borrowed; NULL where no policy will ask for them */
    const lh_projection *projections; /* [layers] */
    const lh_rotation *rotations;     /* [layers]; a forward pass needs them */
    const lh_profiles *profiles;      /* those that the policy names are in it */
    const lh_keep_sets *given;        /* kept at the end of the prompt in place of what the policy would; NULL: none */
} lh_kv_shape;

/* What a layer does with a chunk of a prompt, with a question or with a single token: the rows of this rank's heads, in
 * device memory. */
typedef struct lh_kv_rows {
    lh_query_rows queries;
    /* as they were appended, but not yet rounded to the type of the entries: [tokens, kv_count, head_dim], rows
     * queries.q_ld apart; and what attention made of the queries: [tokens, q_count, head_dim]. NULL: nobody listens */
    const float *keys, *values, *outputs;
} lh_kv_rows;

/* What the cache reports while it works (traces, keep sets, progress); any member may be NULL. Called on every rank. */
typedef struct lh_kv_listener {
    void *self;
    /* the first position of a prompt whose rows are wanted in a layer; past its end: none, nor later ones */
    int64_t (*first_row)(void *self, int64_t layer);
    /* wanted rows, with the layer and its entries, theirs included; also after a failure, for it may be collective */
    lh_status (*rows)(void *self, const lh_evict_job *job, const lh_kv_rows *rows);
    /* at the end of a layer's prefill, before anything goes; also after a failure */
    lh_status (*whole)(void *self, const lh_evict_job *job);
    /* at the end of a layer's prefill, when attention scored its entries: before the selection */
    lh_status (*scored)(void *self, int64_t layer, const lh_evict_scores *scores);
    /* after the eviction of a layer at the end of prefill: the layer's view as it is kept */
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

/* `kv` is filled by the prefill of `leader`, which does for both what is said below of a prompt: begins it, hands on
 * the rows, evicts. Both are empty, of one shape and one context; kv's policy evicts once. Not for a leader that itself
 * follows. kv is closed first. */
lh_status lh_kv_follow(lh_kv *kv, lh_kv *leader);

/* Opens a cache in the state of `from`, which has had its prompt: with the same policy, seed and listener, its entries
 * in the same slots, and room for `more` tokens (as lh_kv_begin). A layer that never evicts shares the full blocks of
 * 256 entries with `from`; other layers are copied. `from` takes in nothing until its forks are closed, and is closed
 * after them: to come back to its state is to close a fork and to fork again. Not collective: agree afterwards. */
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

/* In place of chunks: the keys and values of all tokens of the prompt, [kv_count, tokens, head_dim] of the entries'
 * type in host memory, keys rotated by their positions. For policies that observe no rows, or keep sets that are given.
 * Not collective. */
lh_status lh_kv_fill(lh_kv *kv, int64_t layer, const void *keys, const void *values);

/* Before the chunk that begins at token `at` of a layer's prefill: how many of the at most *tokens tokens come next.
 * Where the policy evicts while it prefills (`block:n`), it does so here when it is due, and makes room; *view may be
 * another one then. Collective in that case. */
lh_status lh_kv_prefill_next(lh_kv *kv, int64_t layer, int64_t at, int64_t *tokens, lh_ragged **view);

/* The first position whose rows lh_kv_record will look at, so that the caller need not compute log-sum-exps before; in
 * prefill `tokens` when it wants none, afterwards INT64_MAX. */
int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer);

/* A chunk's queries with their log-sum-exps; positions are those of all its tokens, whose keys are in the view, and
 * nothing after them. Keeps or counts what the policy observes, and hands the rows to a listener; collective where
 * statistics go on and groups are split. The next agreement reports a failure. */
void lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);

/* Statistics of the prompt's rows that were counted elsewhere (a trace has them), in place of what rows have left here:
 * [kv_count, tokens] device memory, NULL where not counted. After the layer's last row. */
typedef struct lh_kv_columns {
    const float *sums, *squares, *counts;
} lh_kv_columns;
void lh_kv_put_columns(lh_kv *kv, int64_t layer, const lh_kv_columns *columns);

/* Collective. Observe, evict, free. LH_EFILE when the recorded log-sum-exps are not finite: the weights are damaged. */
lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer);

/* ---- blocks and steps ---- */

/* Collective. Memory for `tokens` tokens in all layers, so that no rank runs out of it between the collectives of a
 * forward pass. Ranks talk only when what they have reserved is used up. */
lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens);

/* Room for `tokens` more entries in every head of a layer; *view may be another one than before. Not collective, and
 * allocates nothing of what was reserved. */
lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view);

/* Where the attention of a single row may leave its logits with the entries of a layer (those of lh_kv_room, appended
 * to) for lh_kv_record, which works them out otherwise, and then rounds queries as lh_column_stats_args says; NULL
 * where nobody needs them. Not collective: the next agreement reports a failure. */
lh_row_logits lh_kv_row_logits(lh_kv *kv, int64_t layer);

/* As the shape has it. */
const lh_rotation *lh_kv_rotation(const lh_kv *kv, int64_t layer);

/* 1 where keys are rotated by slots: then keys are appended as they are after the prefill, and rows attend to the view
 * of lh_kv_attended. The position by which a token is rotated: its own, or the slot that it gets in this layer. */
int lh_kv_rotates_by_slot(const lh_kv *kv);
int64_t lh_kv_rotary_position(const lh_kv *kv, int64_t layer, int64_t position);

/* The view that rows attend to, after the tokens up to position `seen` were appended to that of lh_kv_room: the same,
 * or one with keys that are rotated by their slots; until the next call. */
lh_status lh_kv_attended(lh_kv *kv, int64_t layer, int64_t seen, lh_ragged **view);

/* Collective. All layers have taken in `tokens` tokens. LH_KV_BLOCK: a question; if decoding evicts, one eviction
 * follows. LH_KV_STEP: a generated token that was fed back; evicts at every m-th. Sliding layers lose what the next row
 * cannot see. */
typedef enum lh_kv_taken { LH_KV_BLOCK, LH_KV_STEP } lh_kv_taken;
lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens);

/* CUDA graphs. 1 where what a step does on the device between lh_kv_reserve and lh_kv_settle is the same at every step
 * but for what lies on the device; a number that changes when a captured step is stale, on all ranks alike even if
 * memory moved on one alone; and what is called in place of the calls of a step when it was replayed. */
int lh_kv_can_capture(const lh_kv *kv);
int64_t lh_kv_graph_epoch(const lh_kv *kv);
void lh_kv_graph_replayed(lh_kv *kv);

int64_t lh_kv_seen(const lh_kv *kv); /* tokens seen: the position of the next one */

#endif
