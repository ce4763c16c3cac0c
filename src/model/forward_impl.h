/* forward_impl.h - the state shared by forward.c (tokens), layer.c (one layer) and forward_open.c (workspace). */
#ifndef LH_MODEL_FORWARD_IMPL_H
#define LH_MODEL_FORWARD_IMPL_H

#include "model/forward.h"
#include "model/model_impl.h"

/* Logical shards of a product whose inner dimension is divided over ranks: query heads, or blocks of channels. */
typedef struct lh_logical_shards {
    int64_t *first;  /* [ranks + 1] first logical shard of every rank */
    int64_t *bounds; /* [own + 1] first columns of this rank's logical shards */
} lh_logical_shards;

/* Width of a row of queries, keys and values of this rank. */
static inline int64_t lh_forward_qkv_dim(const lh_config *c, const lh_shard *s)
{
    return (s->heads.q_count + 2 * s->heads.kv_count) * c->head_dim;
}

/* Where its keys and its values begin. */
static inline int64_t lh_forward_key_at(const lh_config *c, const lh_shard *s)
{
    return s->heads.q_count * c->head_dim;
}

static inline int64_t lh_forward_value_at(const lh_config *c, const lh_shard *s)
{
    return (s->heads.q_count + s->heads.kv_count) * c->head_dim;
}

/* A decode step captured as a CUDA graph, from f->work.ids and f->work.positions to the logits. Valid until memory that
 * it was captured with is reallocated. */
typedef struct lh_captured_step {
    lh_graph *graph; /* NULL: not captured; the first step of its kind allocates all workspace */
    const lh_kv *kv;
    int64_t kv_epoch, sent_bytes; /* kv_epoch: lh_kv_graph_epoch when captured; sent: by its collectives */
    int refused;                  /* 1: capture failed and is not tried again */
} lh_captured_step;

/* Device memory of one chunk of t tokens. */
typedef struct lh_chunk_work {
    int32_t *ids, *positions, *turns; /* [t] */
    float *x;                         /* [t, hidden] */
    void *normed;                     /* [t, hidden], of the model's type */
    float *qkv;                       /* [t, (q_count + 2 kv_count) * head_dim] */
    float *attended;                  /* [t, q_count * head_dim] */
    void *attended_cast;              /* the same in bf16 */
    float *lse;                       /* [t, q_count] */
    float *gate_up;                   /* [t, 2 ff_count], of a mixture [assignments, 2 ff_count] */
    void *gated;                      /* [t, ff_count], of a mixture [assignments, ff_count] */
    float *squares;                   /* [t, heads + kv_heads] of the model, of norms over all heads only */
    float *y;                         /* [t, hidden] */
    float *products;                  /* [logical shards, t, hidden], of the reproducible order only */
} lh_chunk_work;

/* Of a chunk of t tokens in a mixture of experts; assignments: t * top_k. */
typedef struct lh_expert_work {
    float *logits;    /* [t, experts], of the router */
    lh_routes routes; /* of the current layer; its arrays are for t tokens */
    void *rows;       /* [assignments, hidden], of the model's type */
    float *outputs;   /* [assignments, hidden] */
} lh_expert_work;

/* The last rows of a call and their logits, in device memory. */
typedef struct lh_last_rows {
    int64_t next;  /* rows requested for the next call */
    int64_t cap;   /* rows allocated */
    int64_t n;     /* rows of the last call */
    float *x;      /* [cap, hidden] */
    void *normed;  /* [cap, hidden] */
    float *logits; /* [cap, vocab_count] */
} lh_last_rows;

/* Of layers that do not slide, of those that do, and of those that are not rotated, whose frequencies are 0. */
typedef enum lh_rotation_kind {
    LH_ROTATION_GLOBAL,
    LH_ROTATION_LOCAL,
    LH_ROTATION_NONE,
    LH_ROTATIONS
} lh_rotation_kind;

struct lh_forward {
    lh_model *model;
    const lh_config *config;
    const lh_shard *shard;
    lh_exec exec;
    lh_device *device;
    int64_t chunk;                   /* most tokens that pass through a layer together */
    int32_t *numbers;                /* host, [chunk] */
    lh_rotation kinds[LH_ROTATIONS]; /* own the frequencies */
    lh_rotation *rotations;          /* host, [layers]: one of the kinds each */
    lh_logical_shards head_shards, block_shards;
    int64_t *gather_bytes, *gather_at; /* [ranks] */
    lh_chunk_work work;
    lh_expert_work experts;
    lh_last_rows last_rows;
    lh_sample_room room;
    lh_captured_step step;
};

/* Make room for the rows requested by lh_forward_keep; those of the previous call are lost. */
lh_status lh_forward_apply_keep(lh_forward *f);

/* Drop the captured step: its memory is about to be reallocated. */
void lh_forward_forget_step(lh_forward *f);

/* ---- layer.c: failures are latched (exec.h) ---- */

/* A chunk of tokens in one layer. */
typedef struct lh_rows_at {
    int64_t layer, first, tokens; /* first: position of the first one */
    lh_ragged *view;
    const int32_t *turns; /* device, [tokens]: rotary positions of queries and keys; NULL: their positions */
    int keys_as_they_are; /* 1: keys are appended without rotation */
    float *x;             /* [tokens, hidden], updated in place */
} lh_rows_at;

/* Norm, projections, rotation; keys and values into the cache, rotated queries left in f->work.qkv. */
void lh_layer_append(lh_forward *f, const lh_rows_at *rows);

/* Results of the attention of one row besides its output. */
typedef struct lh_row_results {
    float *lse; /* [q_count] or NULL */
    lh_row_logits logits;
} lh_row_results;

/* Attention of the queries in f->work.qkv into f->work.attended, of a block or of one row. lse may be NULL. */
void lh_layer_attend(lh_forward *f, const lh_rows_at *rows, float *lse);
void lh_layer_attend_step(lh_forward *f, const lh_rows_at *rows, const lh_row_results *out);

/* Output projection, residual, MLP, residual. Collective. */
void lh_layer_output(lh_forward *f, const lh_rows_at *rows);

#endif
