/* kv_impl.h - what the files of this room share. Everybody else includes kv.h. */
#ifndef LH_KV_KV_IMPL_H
#define LH_KV_KV_IMPL_H

#include "kv/kv.h"

/* ---- pools: the memory of one layer ---- */

/* Whether the position of an entry is stored with it, or is its slot: in pools that nothing is evicted from. */
typedef enum lh_positions { LH_POSITIONS_IMPLIED, LH_POSITIONS_STORED } lh_positions;

/* Head h owns slots offset[h] .. offset[h] + cap[h] - 1 and holds len[h] entries. The host arrays say what the device's
 * copies in `view` say whenever no call is under way, but during a prefill or a step, when the caller appends. */
typedef struct lh_pool {
    lh_ragged view;
    int64_t *offset, *len, *cap; /* host, [heads], one block */
    int64_t *heads_block;        /* device: offset and len, borrowed from the cache */
    int64_t slots;
    lh_positions positions;
} lh_pool;

int64_t lh_pool_bytes(const lh_kv_shape *shape, int64_t slots, lh_positions positions);

/* `block`: device memory for 2 x heads int64. */
lh_status lh_pool_init(lh_pool *pool, const lh_kv_shape *shape, int64_t *block, lh_positions positions);
void lh_pool_clear(lh_pool *pool, lh_stream *stream);

/* Memory for cap[h] slots a head, all empty. */
lh_status lh_pool_alloc(lh_pool *pool, lh_stream *stream, const int64_t *cap);
void lh_pool_free(lh_pool *pool, lh_stream *stream);

/* Slots of one head, from `slot` on. */
typedef struct lh_slots {
    const lh_ragged *view;
    int64_t slot;
} lh_slots;

lh_status lh_slots_copy(lh_stream *stream, const lh_slots *dst, const lh_slots *src, int64_t entries);

/* The same entries in the same order in a pool of cap[h] >= len[h] slots a head. */
lh_status lh_pool_resize(lh_pool *pool, lh_stream *stream, const int64_t *cap);

/* Copy host lengths to the device, and back after an operation changed them. */
lh_status lh_pool_push_len(lh_pool *pool, lh_stream *stream);
lh_status lh_pool_pull_len(lh_pool *pool, lh_stream *stream);

/* ---- what a policy means for one layer of a prompt ---- */

typedef struct lh_layer_plan {
    int64_t budget;       /* entries per KV head */
    int64_t visible_from; /* the first position that the row after the prompt sees */
    lh_protection protect;
    int64_t kept;  /* entries a head keeps; adaptive heads on average */
    int64_t slack; /* slots a head gets beyond them */
    int evicts;    /* 0: keeps all and is prefilled in its own pool */
    int ranked;    /* entries compete and not all of them stay */
    int scored;    /* attention ranks them */
    lh_positions positions;
} lh_layer_plan;

typedef struct lh_prompt {
    int64_t tokens, more;
} lh_prompt;

/* The policy with its shares turned into numbers for a prompt of `tokens` tokens. */
lh_policy_plan lh_kv_fix(const lh_policy_plan *plan, int64_t tokens);

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer);
lh_positions lh_kv_positions_of(const lh_kv_shape *shape, const lh_policy_plan *plan, int64_t layer);

/* The first position that a row at position `seen` sees. */
int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen);

typedef struct lh_layer_request {
    int64_t layer, budget;
    lh_prompt prompt;
} lh_layer_request;

/* Slots that a head holding `held` entries gets beyond them: what it can grow by before something goes again. */
int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_layer_request *request,
                    int64_t held);

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_layer_request *request);

/* ---- work space of an eviction ---- */

typedef enum lh_work_part {
    LH_WORK_Q,      /* [rows, q_count, head_dim] f32; where groups are split the blocks of all ranks, in their order */
    LH_WORK_LSE,    /* alike; within a rank's block one KV head after the other, each [rows, its query heads here] */
    LH_WORK_ROWS,   /* [rows] int32 positions */
    LH_WORK_SUMS,   /* [query heads, tile] f32 */
    LH_WORK_RAW,    /* [kv_count x rows_per_head, ld] f32 */
    LH_WORK_SHAPED, /* alike, pooled */
    LH_WORK_STATE,  /* [kv_count, ld] lh_entry_state */
    LH_WORK_COUNTS, /* [3, kv_count] int64: to select; above and at the threshold */
    LH_WORK_BINS,   /* [2048] int64 */
    LH_WORK_PIECES, /* columns that the ranks observed of shared KV heads */
    LH_WORK_AGAIN,  /* [rows, q_count, head_dim + 1] f32: what rows that are observed again attend to, log-sum-exps */
    LH_WORK_VIEWS,  /* [rows] lh_ragged: the layer's view, for every row that is observed again */
    LH_WORK_PARTS
} lh_work_part;

enum { LH_SUMMARY_BINS = 2048 }; /* of the largest round: 11 bits */

typedef struct lh_work {
    void *at[LH_WORK_PARTS];
    int64_t bytes[LH_WORK_PARTS];
    int64_t ld, rows, tile, rows_per_head;
} lh_work;

typedef struct lh_work_request {
    int64_t ld, rows;          /* slots of the longest head, observed rows */
    int ranked, scored, again; /* again: rows of a ring, while decoding */
} lh_work_request;

/* What evictions while decoding need, for heads of up to `ld` slots. */
lh_work_request lh_kv_decode_work(const lh_policy_plan *fixed, int64_t ld);

/* Sizes alone; alloc takes them. Returns all bytes. */
int64_t lh_work_size(lh_work *work, const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_work_request *need);
lh_status lh_work_alloc(lh_work *work, lh_stream *stream);
void lh_work_free(lh_work *work, lh_stream *stream);

/* ---- the cache ---- */

/* A layer as it was when the mark was set. */
typedef struct lh_saved {
    lh_ragged view; /* device: k, v and positions, dense in head order */
    int64_t *len;   /* host, [heads] */
    int taken;      /* 0: the entries still lie in the pool */
} lh_saved;

/* The last query rows, kept where decoding observes them again: row of position p at p % rows. */
typedef struct lh_ring {
    float *q;     /* device, [rows, q_count, head_dim] */
    float *saved; /* as it was at the mark; NULL: nothing was recorded since */
} lh_ring;

typedef struct lh_kv_layer {
    lh_pool pool;
    lh_saved saved;
    lh_ring ring;
    lh_layer_plan plan;
} lh_kv_layer;

typedef struct lh_kv_clock { /* what time has done: comes back with a mark */
    int64_t seen, steps, evictions;
    int budgets_made; /* the pyramid's are made once something has to go */
} lh_kv_clock;

/* Small host arrays of collectives, made once: an allocation in the middle of one could fail on one rank alone. */
typedef struct lh_traffic {
    int64_t *bytes, *at;                     /* [ranks] */
    int64_t *floors, *counts, *room, *share; /* [kv_heads of the model] */
    int64_t *offsets;                        /* [kv_heads + 1] */
    int64_t *kept, *above;                   /* [kv_count] */
    int64_t *bins;                           /* [LH_SUMMARY_BINS] */
    uint32_t *mine, *all;                    /* [LH_SUMMARY_BINS], [ranks, LH_SUMMARY_BINS] */
} lh_traffic;

lh_status lh_traffic_init(lh_traffic *traffic, const lh_heads *heads);
void lh_traffic_clear(lh_traffic *traffic);

struct lh_kv {
    lh_kv_place place;
    lh_kv_shape shape;
    lh_policy_plan plan, fixed;
    lh_kv_listener listener;
    lh_prompt prompt;
    lh_kv_layer *layers;
    lh_pool scratch;      /* the layer that is being prefilled and will evict */
    int64_t last_evicted; /* the last layer that takes the scratch, -1: none */
    int64_t *budgets;     /* host, [layers] */
    int64_t *blocks;      /* device: offsets and lengths of all pools */
    lh_work work;
    lh_traffic traffic;
    lh_kv_clock clock, marked;
    int is_marked, begun;
    int64_t summary_bytes;
    double evict_s;
};

int64_t lh_kv_blocks_bytes(const lh_kv_shape *shape);
lh_device *lh_kv_device(const lh_kv *kv);
double lh_kv_now(void);

lh_logit lh_kv_logit(const lh_kv *kv, int64_t layer);

/* Make the budgets of all layers for `seen` tokens. */
void lh_kv_make_budgets(lh_kv *kv, int64_t seen);

/* Begin without a prompt: what restoring needs. Slack as after a prompt of `tokens` tokens. */
lh_status lh_kv_begin_layers(lh_kv *kv, const lh_prompt *prompt);

/* An eviction of one layer. Scores and states lie in kv->work. */
typedef struct lh_eviction {
    int64_t layer;
    lh_pool *pool;
    int64_t seen, visible_from;
    lh_protection protect;
    int64_t cols;        /* slots of the longest head of all ranks */
    int ranked;          /* entries compete and not all of them stay */
    int scored;          /* attention ranks them */
    int again;           /* rows come from the ring, while decoding */
    const int64_t *room; /* [kv_heads of the model] entries that compete; for adaptive heads */
} lh_eviction;

/* Classify the entries into the work's states. */
lh_status lh_kv_classify(lh_kv *kv, const lh_eviction *e);

/* Collective where attention ranks or heads are adaptive. Classify, score, and mark in the states what stays;
 * counts[h]: competing entries of this rank's head h that stay, as far as there are so many. A failure of this rank
 * alone goes to *local, and the rank goes on taking part. */
lh_status lh_kv_choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts);

/* Collective. Attention scores of the observed rows -> *scores [kv_count, ld]. */
lh_status lh_kv_observe(lh_kv *kv, const lh_eviction *e, lh_status *local, const float **scores);

/* Log-sum-exps of `rows` rows from row `row` on into this rank's block of the work space. */
lh_status lh_kv_keep_lse(lh_kv *kv, const float *lse, int64_t row, int64_t rows);

/* Rings: none where decoding does not observe. */
int64_t lh_kv_ring_bytes(const lh_kv_shape *shape, const lh_policy_plan *fixed);
int64_t lh_kv_ring_rows(const lh_kv *kv); /* that it holds */
lh_status lh_kv_ring_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows);
/* The ring's rows in the order of their positions into this rank's block of the work space, with log-sum-exps over the
 * entries that are held now. */
lh_status lh_kv_ring_unroll(lh_kv *kv, const lh_eviction *e);

/* AdaKV's selection over all heads of all ranks. budgets: [kv_heads of the model] competing entries that stay. */
typedef struct lh_share {
    const lh_eviction *e;
    const float *scores;
} lh_share;
lh_status lh_kv_share(lh_kv *kv, const lh_share *q, lh_status *local, int64_t *budgets);

/* Collective. Lengths of this rank's counted heads -> of all heads of the model, on every rank. */
lh_status lh_kv_gather_lens(lh_kv *kv, const int64_t *own, int64_t *all);

/* kv->traffic for gathering the counted heads of all ranks, `entry_bytes` bytes an entry. */
void lh_kv_traffic_of_heads(lh_kv *kv, const int64_t *lens, int64_t entry_bytes);

/* Remember a layer before its entries move. Does nothing without a mark, or the second time. */
lh_status lh_kv_save_layer(lh_kv *kv, int64_t layer);
/* Alike, its ring before a row is recorded. */
lh_status lh_kv_save_ring(lh_kv *kv, int64_t layer);
void lh_kv_drop_saved(lh_kv *kv, int64_t layer);

#endif
