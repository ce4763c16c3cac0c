/* kv_impl.h - what the files of this room share. Everybody else includes kv.h. */
#ifndef LH_KV_KV_IMPL_H
#define LH_KV_KV_IMPL_H

#include "base/minmax.h"
#include "kv/kv.h"
#include "policies/budgets.h"

/* ---- pools: the memory of one layer ---- */

/* Whether the position of an entry is stored with it, or is its slot: in pools that nothing is evicted from. */
typedef enum lh_positions { LH_POSITIONS_IMPLIED, LH_POSITIONS_STORED } lh_positions;

/* What a pool stores with an entry beside key and value. */
typedef struct lh_pool_form {
    lh_positions positions;
    int64_t stats; /* numbers an entry */
} lh_pool_form;

/* Head h owns slots offset[h] .. offset[h] + cap[h] - 1 and holds len[h] entries. The host arrays say what the device's
 * copies in `view` say whenever no call is under way, but during a prefill or a step, when the caller appends, and
 * after evictions while decoding: then the host's lengths are at least the device's, until lh_kv_fetch_lens. */
typedef struct lh_pool {
    lh_ragged view;
    int64_t *offset, *len, *cap; /* host, [heads], one block */
    int64_t *heads_block;        /* device: offset and len, borrowed from the cache */
    int64_t slots, moves;        /* moves: how often it came to lie elsewhere */
    lh_pool_form form;
} lh_pool;

int64_t lh_pool_bytes(const lh_kv_shape *shape, int64_t slots, lh_pool_form form);

/* `block`: device memory for 2 x heads int64. */
lh_status lh_pool_init(lh_pool *pool, const lh_kv_shape *shape, int64_t *block, lh_pool_form form);
void lh_pool_clear(lh_pool *pool, lh_stream *stream);

/* Memory for cap[h] slots a head, all empty. */
lh_status lh_pool_alloc(lh_pool *pool, lh_stream *stream, const int64_t *cap);
void lh_pool_free(lh_pool *pool, lh_stream *stream);

/* Slots of one head, from `slot` on. */
typedef struct lh_slots {
    const lh_ragged *view;
    int64_t slot;
} lh_slots;

/* Keys, values and positions. */
lh_status lh_entries_copy(lh_stream *stream, const lh_slots *dst, const lh_slots *src, int64_t entries);

/* Their statistics; nothing where one of them has none. */
lh_status lh_stats_copy(lh_stream *stream, const lh_slots *dst, const lh_slots *src, int64_t entries);

/* The same entries in the same order in a pool of cap[h] >= len[h] slots a head. */
lh_status lh_pool_resize(lh_pool *pool, lh_stream *stream, const int64_t *cap);

/* Copy host lengths to the device, and back after an operation changed them. */
lh_status lh_pool_push_len(lh_pool *pool, lh_stream *stream);
lh_status lh_pool_pull_len(lh_pool *pool, lh_stream *stream);

/* ---- the numbers that go with an entry ---- */

/* Which of lh_ragged.stats is what: sums of attention (`parts` of them: 1, or one for every query head of the group),
 * sums of squares, counts, the squared norm of its value, the norm that weighs its score in the second stage (norms are
 * -1 only where there is neither), and the score itself, while layers compete. -1: not carried. Four bytes each. */
typedef struct lh_stat_layout {
    int64_t sums, parts, squares, counts, priors, norms, score, count;
} lh_stat_layout;

lh_stat_layout lh_kv_stat_layout(const lh_kv_shape *shape, const lh_policy_numbers *fixed);

/* Query heads whose numbers are kept apart: 1, or the group where they are joined by their maximum, after the pool, or
 * after a softmax (expected attention). */
int64_t lh_kv_parts(const lh_kv_shape *shape, const lh_policy_numbers *fixed);

/* Whether evictions go on after the one at the end of prefill, or while it lasts, and score what is attended to. */
int lh_kv_evicts_again(const lh_policy_numbers *fixed);
int lh_kv_observes_again(const lh_policy_numbers *fixed);

/* Whether scores are made of query rows. */
int lh_kv_needs_rows(const lh_policy_numbers *fixed);

/* One of the numbers of a view, for operations; at NULL where `index` is -1. */
lh_slot_floats lh_kv_stat(const lh_ragged *view, int64_t index);

/* [kv_count * parts, ld] as slot numbers. */
lh_slot_floats lh_kv_rows_of(void *at, int64_t parts, int64_t ld);

/* The same numbers from KV head g on. */
lh_slot_floats lh_kv_from_head(lh_slot_floats f, int64_t g);

/* A view of KV head g alone. */
lh_ragged lh_kv_one_head(const lh_ragged *view, int64_t g);

/* ---- what a policy means for one layer of a prompt ---- */

typedef struct lh_layer_plan {
    int64_t budget;       /* entries per KV head */
    int64_t visible_from; /* the first position that the row after the prompt sees */
    lh_protection protect;
    int64_t kept;  /* entries a head keeps; adaptive heads on average */
    int64_t slack; /* slots a head gets beyond them */
    int evicts;    /* 0: keeps all and is prefilled in its own pool */
    int ranked;    /* entries compete and not all of them stay */
    int scored;    /* they are ranked by more than their position */
} lh_layer_plan;

typedef struct lh_prompt {
    int64_t tokens, more;
} lh_prompt;

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer);
/* Of the pool that a layer keeps after its prefill, and of the one in which a layer that evicts is prefilled. */
lh_pool_form lh_kv_form_of(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t layer);
lh_pool_form lh_kv_scratch_form(const lh_kv_shape *shape, const lh_policy_numbers *fixed);

/* Whether the rows of a layer's prefill are counted as they pass. */
int lh_kv_counts(const lh_policy_numbers *fixed, const lh_layer_plan *layer);

/* The first position that a row at position `seen` sees. */
int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen);

typedef struct lh_layer_request {
    int64_t layer, budget;
    lh_prompt prompt;
} lh_layer_request;

/* Slots that a head holding `held` entries gets beyond them: what it can grow by before something goes again. */
int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_numbers *fixed, const lh_layer_request *request,
                    int64_t held);

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                               const lh_layer_request *request);

/* ---- work space ---- */

/* Parts of a block of observed rows. Where groups are split over ranks, Q and LSE hold the blocks of all ranks in their
 * order, and GROUP_* the same rows with all query heads of this rank's KV heads, one after the other. */
typedef enum lh_row_part {
    LH_ROWS_Q,         /* [rows, q_count, head_dim] f32 */
    LH_ROWS_LSE,       /* [rows, q_count] f32 */
    LH_ROWS_GROUP_Q,   /* [rows, kv_count * group, head_dim] f32 */
    LH_ROWS_GROUP_LSE, /* [rows, kv_count * group] f32: also where rows have a normaliser of their own */
    LH_ROWS_AT,        /* [rows] int32 positions */
    LH_ROWS_UNTIL,     /* [rows] int32: the last position that a row sees, where it is not its own */
    LH_ROWS_GAINS,     /* [rows] f32 */
    /* expected attention: */
    LH_ROWS_TURN,        /* [rotary / 2] f32: frequencies, negative */
    LH_ROWS_SUMS,        /* [q_count, head_dim] f64; where groups are split of all ranks, as below */
    LH_ROWS_PRODUCTS,    /* [q_count, head_dim, head_dim] f64 */
    LH_ROWS_MEANS,       /* [kv_count * group, head_dim] f32 */
    LH_ROWS_COVARIANCES, /* [kv_count * group, head_dim, head_dim] f32 */
    LH_ROWS_PARTS
} lh_row_part;

enum { LH_ROWS_AT_ONCE = 512 }; /* rows that are counted at a time while statistics go on */

typedef struct lh_row_space {
    void *at[LH_ROWS_PARTS];
    int64_t bytes[LH_ROWS_PARTS];
    int64_t cap;
} lh_row_space;

/* Sizes alone, for the policy's rows of a prompt of `tokens` tokens or (0) of decoding; alloc takes them. Returns all
 * bytes. */
int64_t lh_row_space_size(lh_row_space *space, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                          int64_t tokens);

typedef enum lh_work_part {
    LH_WORK_RAW,     /* [kv_count x parts, ld] f32 */
    LH_WORK_SHAPED,  /* alike, pooled */
    LH_WORK_SQUARES, /* [kv_count, ld] f32, where rows are observed again */
    LH_WORK_SECOND,  /* [kv_count, ld] f32: scores of the second stage */
    LH_WORK_PRIOR,   /* [2, kv_count, ld] f32 */
    LH_WORK_NORMS,   /* [query heads + kv_count, fresh] f32: norms of every query head (of all ranks where groups are
                        split), and their means */
    LH_WORK_JOINT,   /* [ld] int64: sums over heads; and an f32: the largest score */
    LH_WORK_STATE,   /* [kv_count, ld] lh_entry_state */
    LH_WORK_COUNTS,  /* [3, kv_count] int64: to select; of both stages (split_counts) */
    LH_WORK_BINS,    /* [counted heads, sheets, 2048] int32 */
    LH_WORK_SUMS,    /* [2048 + 1] int32 */
    LH_WORK_SEARCH,  /* [LH_SHARE_ROUNDS] lh_search */
    LH_WORK_TALLIES, /* [kv_heads of the model, sheets] lh_tally */
    LH_WORK_GRANTS,  /* [sheets] lh_grant, where layers compete */
    LH_WORK_BUDGETS, /* [kv_heads of the model, sheets] int64: competing entries that stay */
    LH_WORK_LOGITS,  /* [kv_count x group, ld] f32: of the row that a step of decoding adds, where no group is split */
    LH_WORK_PIECES,  /* columns that the ranks observed of shared KV heads */
    LH_WORK_PARTS
} lh_work_part;

enum { LH_SUMMARY_BINS = 2048, LH_SHARE_ROUNDS = 3 }; /* of the largest round: 11 bits */

typedef struct lh_work {
    void *at[LH_WORK_PARTS];
    int64_t bytes[LH_WORK_PARTS];
    int64_t ld;
} lh_work;

typedef struct lh_work_request {
    int64_t ld;         /* slots of the longest head */
    int ranked, scored; /* as of lh_layer_plan, of any layer */
    int counted;        /* statistics of a prompt are counted in columns of ranks and put together */
    int steps;          /* single rows are observed */
} lh_work_request;

/* Sizes alone; alloc takes them. Returns all bytes. */
int64_t lh_work_size(lh_work *work, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                     const lh_work_request *need);

/* What the end of a layer's prefill needs is added. */
void lh_kv_add_need(lh_work_request *need, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                    const lh_layer_plan *layer);

/* What evictions while decoding need, for heads of up to `ld` slots. */
lh_work_request lh_kv_decode_work(const lh_policy_numbers *fixed, int64_t ld);

/* Both kinds of space: an array of parts and their bytes. */
lh_status lh_parts_alloc(void **at, const int64_t *bytes, int parts, lh_stream *stream);
void lh_work_free(lh_work *work, lh_stream *stream);
void lh_row_space_free(lh_row_space *space, lh_stream *stream);

/* ---- the cache ---- */

/* A layer as it was when the mark was set. */
typedef struct lh_saved {
    lh_ragged view; /* device: k, v and positions, dense in head order; statistics as soon as one has changed */
    int64_t *len;   /* host, [heads] */
    int64_t fresh;
    int taken; /* 0: the entries still lie in the pool */
} lh_saved;

/* The last query rows, kept where decoding observes them again: row of position p at p % rows. Before them the first
 * ones of the prompt, where they are observed, too. */
typedef struct lh_ring {
    float *q;     /* device, [rows, q_count, head_dim] */
    float *saved; /* as it was at the mark; NULL: nothing was recorded since */
} lh_ring;

/* What the newest row gave to the entries, where decoding observes it alone: counted from the logits of its attention,
 * for the eviction that follows. */
typedef struct lh_latest {
    float *sums; /* device, [kv_count x parts, ld] */
    int64_t ld;
    int64_t row; /* its position, -1: nothing that holds */
} lh_latest;

typedef struct lh_kv_layer {
    lh_pool pool;
    lh_saved saved;
    lh_ring ring;
    lh_latest latest;
    lh_layer_plan plan;
    int64_t fresh; /* entries at the end of every head whose norms are not known yet */
} lh_kv_layer;

typedef struct lh_kv_clock { /* what time has done: comes back with a mark */
    int64_t seen, steps, evictions;
    int budgets_made; /* the pyramid's are made once something has to go */
} lh_kv_clock;

/* Small host arrays of collectives, made once: an allocation in the middle of one could fail on one rank alone. */
typedef struct lh_traffic {
    int64_t *bytes, *at;   /* [ranks] */
    int64_t *room, *share; /* [kv_heads of the model] */
    int64_t *offsets;      /* [kv_heads + 1] */
    int64_t *kept;         /* [kv_count] */
} lh_traffic;

lh_status lh_traffic_init(lh_traffic *traffic, const lh_heads *heads);
void lh_traffic_clear(lh_traffic *traffic);

typedef struct lh_over_layers lh_over_layers;

/* Keys of the layer under way, turned by their slots. */
typedef struct lh_turn {
    lh_pool pool;    /* the layer's, with other keys: those are all that it owns */
    float *keys;     /* device, [longest, head_dim] */
    int32_t *slots;  /* device, [longest]: 0, 1, 2, ... */
    float *inv_freq; /* device */
    int64_t room, longest;
} lh_turn;

struct lh_kv {
    lh_exec place;
    lh_kv_shape shape;
    lh_policy plan;
    lh_policy_numbers fixed;                        /* the plan for the prompt; before one is known, for none */
    const lh_profile *layer_profile, *head_profile; /* the plan's, NULL: none */
    lh_kv_listener listener;
    lh_prompt prompt;
    lh_kv_layer *layers;
    lh_stat_layout layout;
    uint64_t seed;
    uint32_t request;
    lh_turn turn;
    lh_over_layers *over;  /* NULL: layers have budgets of their own */
    lh_pool scratch;       /* the layer that is being prefilled and will evict */
    int64_t last_evicted;  /* the last layer that takes the scratch, -1: none */
    int64_t assured;       /* single tokens that all ranks have room for */
    int64_t assured_again; /* and that they have room for after every eviction of a step; 0: not known */
    lh_kv *leader;         /* whose prefill fills this cache; NULL: its own */
    lh_kv *twin;           /* an earlier follower that counts the same statistics; NULL: counts for itself */
    lh_kv **followers;
    int64_t follower_count;
    int64_t *budgets; /* host, [layers] */
    int64_t *blocks;  /* device: offsets and lengths of all pools */
    int64_t *fetched; /* host, the same: on its way from the device while `behind` is 1 */
    int behind;       /* the host's lengths are those before an eviction */
    int64_t moves;    /* how often what a step of decoding works with came to lie elsewhere, beside the pools */
    lh_work work;
    lh_row_space rows;
    lh_status counting; /* of this rank alone: a failure while rows were counted; told at the next agreement */
    lh_traffic traffic;
    lh_kv_clock clock, marked;
    int is_marked, begun;
    int64_t summary_bytes;
    double evict_s;
};

int64_t lh_kv_blocks_bytes(const lh_kv_shape *shape);

/* After evictions that nobody waited for: the lengths are asked for, and (fetch) waited for where they were. */
lh_status lh_kv_ask_lens(lh_kv *kv);
lh_status lh_kv_fetch_lens(lh_kv *kv);
lh_device *lh_kv_device(const lh_kv *kv);
double lh_kv_now(void);

lh_logit lh_kv_logit(const lh_kv *kv, int64_t layer);

/* Make the budgets of all layers for `seen` tokens. */
void lh_kv_make_budgets(lh_kv *kv, int64_t seen);

/* ---- followers (follow.c) ---- */

/* The pool in which a layer is prefilled. */
lh_pool *lh_kv_prefill_pool(lh_kv *kv, int64_t layer);

/* The followers' views of the layer that their leader prefills: before its first row, and when it is done. */
lh_status lh_kv_lend(lh_kv *leader, int64_t layer);
void lh_kv_take_back(lh_kv *follower);

/* Row space for a prompt, or (0) for decoding. */
lh_status lh_kv_alloc_rows(lh_kv *kv, int64_t tokens);

/* Begin without a prompt: what restoring needs. Slack as after a prompt of `tokens` tokens. */
lh_status lh_kv_begin_layers(lh_kv *kv, const lh_prompt *prompt);

/* An eviction of one layer. Scores and states lie in kv->work. */
typedef struct lh_eviction {
    int64_t layer;
    lh_pool *pool;
    int64_t seen, visible_from;
    lh_protection protect;
    int64_t cols;        /* slots of the longest head of all ranks, or more */
    int64_t number;      /* of evictions of this layer before it */
    int ranked;          /* entries compete and not all of them stay */
    int scored;          /* they are ranked by more than their position */
    int again;           /* rows come from the ring, while decoding */
    const int64_t *room; /* [kv_heads of the model] entries that compete; with a profile, and where layers compete */
} lh_eviction;

/* ---- rotation ---- */

const lh_kv_rotation *lh_kv_rotation_of(const lh_kv *kv, int64_t layer);
lh_status lh_kv_fetch_frequencies(lh_kv *kv, int64_t layer, float **out); /* [rotary / 2], new memory of the host */
lh_status lh_kv_put_backwards(lh_kv *kv, int64_t layer, float *device);   /* the same, negative, on the device */

/* ---- slot positions (turn.c) ---- */

int lh_kv_turns(const lh_policy_numbers *fixed);
int64_t lh_turn_bytes(const lh_kv_shape *shape, int64_t slots, int64_t longest);
void lh_turn_free(lh_kv *kv);

/* Space for turning the keys of any layer when `tokens` tokens come to them. */
lh_status lh_kv_reserve_turn(lh_kv *kv, int64_t tokens);

/* At the end of a layer's prefill: its keys as they were before their rotation. */
lh_status lh_kv_unturn(lh_kv *kv, int64_t layer);

/* ---- one eviction of a layer that lies in its own pool (decode.c) ---- */

/* Work space for heads as long as they are now in any layer, and `cols` slots at least. Alone; and before evictions
 * that exchange something, which all ranks need it for: collective then, with the failure of any of them. */
lh_status lh_kv_make_work(lh_kv *kv, int64_t cols);
lh_status lh_kv_make_work_everywhere(lh_kv *kv, int64_t cols, lh_status *local);

/* Collective where attention ranks and groups are split, heads differ or are joined: what the next row cannot see goes,
 * then what the policy gives up. e: layer, seen, visible_from, protect and number. The work space is made. */
lh_status lh_kv_drop_unseen(lh_kv *kv, const lh_eviction *e);
lh_status lh_kv_evict_layer(lh_kv *kv, lh_eviction *e, lh_status *local);

/* ---- blocks (blocks.c): eviction while a prompt is taken in ---- */

/* Evictions that a prompt of `tokens` tokens has seen in a layer of that budget. */
int64_t lh_kv_block_count(const lh_policy_numbers *fixed, int64_t budget, int64_t tokens);

/* At the end of a layer's prefill: lengths, and which entries have no norms yet. */
lh_status lh_kv_end_blocks(lh_kv *kv, int64_t layer);

/* ---- rows (rows.c) ---- */

/* Query rows of this rank's query heads, and with lh_kv_join_rows of all query heads of its KV heads. */
typedef struct lh_row_block {
    const float *q, *lse; /* lse NULL: not known; or of a single row, which gets its own in the place `own` */
    float *own;
    lh_row_logits logits; /* of a single row */
    const int32_t *positions;
    int64_t rows, q_ld, lse_ld;
    int64_t first, head; /* row r is at position first + r, but for the first `head` rows, which are at position r */
    const int32_t *until;
    const float *gains;
} lh_row_block;

/* Where this rank's block of Q and LSE begins, for blocks of `rows` rows. */
float *lh_kv_own_q(lh_kv *kv, int64_t rows);
float *lh_kv_own_lse(lh_kv *kv, int64_t rows);

/* Collective. `blocks` of all ranks (device), in place, `head_bytes` bytes a query head. */
lh_status lh_kv_exchange_heads(lh_kv *kv, void *blocks, int64_t head_bytes, lh_status *local);

/* LH_EFILE when log-sum-exps of rows of the prompt are not finite: the weights are damaged. What is no number later is
 * no number in the logits either, and found there. */
lh_status lh_kv_check_rows(lh_kv *kv, int64_t layer, const lh_row_block *block);

/* Collective where groups are split (then own->q and own->lse are this rank's block in kv->rows). Rows with all query
 * heads of this rank's KV heads, and their log-sum-exps: those given, or their own where there are none, the policy
 * has a gain, or it is not causal; those of a single row are left to who counts it. A failure of this rank alone goes
 * to *local. */
lh_status lh_kv_join_rows(lh_kv *kv, const lh_eviction *e, const lh_row_block *own, lh_status *local,
                          lh_row_block *out);

/* ---- columns (observe.c) ---- */

/* What is counted of columns. */
typedef struct lh_columns {
    lh_slot_floats sums, squares, counts;
    int64_t parts;
} lh_columns;

/* Position of the first row whose statistics are counted where they go on: of the prompt's last rows, or of all. */
int64_t lh_kv_first_counted(const lh_kv *kv);

/* Statistics of the rows go on: added to those of the entries of the layer. Collective where groups are split. */
lh_status lh_kv_count_rows(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);

/* Collective where groups are split. What the ranks counted of shared KV heads, put together on all of them: at the end
 * of a layer's prefill. */
lh_status lh_kv_join_stats(lh_kv *kv, const lh_eviction *e, lh_status *local);

/* Layers whose newest row is counted as it passes, and what that takes for heads of up to `ld` slots, 0 for others. */
int lh_kv_counts_latest(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t layer);
int64_t lh_kv_latest_bytes(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t ld);
void lh_kv_free_latest(lh_kv *kv, lh_latest *latest);

/* A single row whose logits are known, of such a layer. */
lh_status lh_kv_count_latest(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);

/* Whether the layer's lh_latest is of the row before this eviction. */
int lh_kv_is_latest(const lh_kv *kv, const lh_eviction *e);

/* Numbers of the entries that an eviction ranks by, of rows that are not counted on and on. */
lh_slot_floats lh_kv_observed_sums(const lh_kv *kv, const lh_eviction *e);

/* Collective. The rows that were kept (or those of the ring) are observed, into kv->work; the newest row alone was
 * counted as it passed. */
lh_status lh_kv_observe(lh_kv *kv, const lh_eviction *e, lh_status *local);

/* ---- expected attention (expected.c) ---- */

/* Before a layer's first row; rows of its prefill; and the scores of its entries, collective where groups are split. */
lh_status lh_kv_expect_begin(lh_kv *kv, int64_t layer);
lh_status lh_kv_expect_rows(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);
lh_status lh_kv_expect(lh_kv *kv, const lh_eviction *e, lh_status *local);

/* ---- norms (norms.c) ---- */

/* Collective where groups are split. Norms of the entries that have none yet, into their statistics. */
lh_status lh_kv_make_norms(lh_kv *kv, const lh_eviction *e, lh_status *local);

/* ---- scores (score.c) ---- */

/* [kv_count, ld]: what the first stage ranks by, heads compete by, and the second stage ranks by (NULL: one stage). */
typedef struct lh_scores {
    const float *first, *heads, *second;
} lh_scores;

/* Collective. Scores of the entries by the policy's source, shaped. */
lh_status lh_kv_score(lh_kv *kv, const lh_eviction *e, lh_status *local, lh_scores *scores);

/* Collective. The same scores for all heads of the layer, in place. */
lh_status lh_kv_join_scores(lh_kv *kv, const lh_eviction *e, lh_status *local, float *scores);

/* ---- selection ---- */

/* Classify the entries into the work's states. */
lh_status lh_kv_classify(lh_kv *kv, const lh_eviction *e);

/* Counts of this rank's heads into LH_WORK_COUNTS. */
lh_status lh_kv_put_counts(lh_kv *kv, const int64_t *counts);

/* counts[h] (device) competing entries of each head stay, the best by `scores`; what becomes of the others: `others`.
 */
lh_status lh_kv_mark_best(lh_kv *kv, const lh_eviction *e, const float *scores, const int64_t *counts,
                          lh_entry_state others);

/* The entries that stay, counts[h] competing ones of each head, from the pool of a prefill into one of the layer's own,
 * with its slack. */
lh_status lh_kv_compact_out(lh_kv *kv, const lh_eviction *e, int64_t *counts);

/* Collective where attention ranks or heads differ or are joined. Classify, score, and mark in the states what stays;
 * counts[h]: competing entries of this rank's head h that stay, as far as there are so many; NULL: nobody has to know
 * on the host. A failure of this rank alone goes to *local, and the rank goes on taking part. */
lh_status lh_kv_choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts);

/* Rings: none where decoding does not observe. */
int64_t lh_kv_ring_bytes(const lh_kv_shape *shape, const lh_policy_numbers *fixed);
int64_t lh_kv_ring_rows(const lh_kv *kv); /* that it holds */
int64_t lh_kv_ring_slot(const lh_kv *kv, int64_t position);
lh_status lh_kv_ring_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);
/* The ring's rows in the order of their positions (lh_policy_row_at) into this rank's block of kv->rows. */
lh_status lh_kv_ring_unroll(lh_kv *kv, const lh_eviction *e);

/* Collective. What every head of the model keeps of its competing entries, over one layer or several: LH_WORK_BUDGETS
 * (ops.h: share_out). Nothing waits for the device, and nothing goes through the host that the communicator of device
 * memory does not take there. */
typedef struct lh_share {
    int64_t sheets;       /* layers */
    const lh_eviction *e; /* [sheets] */
    const float *scores; /* [kv_count, ld] of the only sheet, whose states are in the work space; NULL: each is shown */
    const lh_grant *grants; /* device, [sheets]; NULL: `grant` for all */
    lh_grant grant;
    lh_fraction share;
    int64_t most; /* entries that all heads together may keep */
} lh_share;
lh_status lh_kv_flat_top(lh_kv *kv, const lh_share *q, lh_status *local);

/* Collective. AdaKV's selection over the heads of one layer: competing entries that stay of this rank's heads, in
 * LH_WORK_COUNTS. */
lh_status lh_kv_share(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local);

/* ---- budgets over all layers (over_layers.c) ---- */

/* States and kept scores of a layer into the work space. */
lh_status lh_kv_show_scores(lh_kv *kv, const lh_eviction *e, const float **scores);

/* Collective. The end of a layer's prefill where all layers compete: what can no longer be among the best goes from it
 * and from the layers before; after the last one what stays is exact. */
lh_status lh_kv_settle_over_layers(lh_kv *kv, const lh_eviction *e, lh_status *local);
lh_status lh_kv_open_over_layers(lh_kv *kv);
void lh_kv_close_over_layers(lh_kv *kv);

/* Collective. Lengths of this rank's counted heads -> of all heads of the model, on every rank. */
lh_status lh_kv_gather_lens(lh_kv *kv, const int64_t *own, int64_t *all);

/* kv->traffic for gathering the counted heads of all ranks, `entry_bytes` bytes an entry. */
void lh_kv_traffic_of_heads(lh_kv *kv, const int64_t *lens, int64_t entry_bytes);

/* Remember a layer before its entries move. Does nothing without a mark, or the second time. */
lh_status lh_kv_save_layer(lh_kv *kv, int64_t layer);
/* Alike, its ring before a row is recorded, and its statistics before they change. */
lh_status lh_kv_save_ring(lh_kv *kv, int64_t layer);
lh_status lh_kv_save_stats(lh_kv *kv, int64_t layer);
void lh_kv_drop_saved(lh_kv *kv, int64_t layer);

#endif
