/* forward_impl.h - the state of the forward pass, shared by forward.c (tokens through all layers), prefill.c, step.c,
 * layer.c (one layer) and forward_open.c (workspace). */
#ifndef LH_MODEL_FORWARD_IMPL_H
#define LH_MODEL_FORWARD_IMPL_H

#include "model/forward_impl.h"

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

/* A decode step captured as a CUDA graph, from f->work.ids and f->work.positions to the logits. Valid for the same
 * sequences, until memory that it was captured with is reallocated on any rank. All ranks have a graph or none,
 * captured at the same step: launching a graph with collectives is itself a collective. */
typedef struct lh_captured_step {
    lh_graph *graph;       /* NULL: not captured; the first step of its kind allocates all workspace */
    const lh_kv **kvs;     /* [n] */
    int64_t *epochs;       /* [n] lh_kv_graph_epoch when captured */
    int64_t n, sent_bytes; /* sent_bytes: bytes that its collectives send */
    int refused;           /* true if capture failed and is not tried again */
} lh_captured_step;

/* Sums over ranks that overlap the computation of a prompt's next rows (prefill.c). */
enum { LH_PENDING_SUMS = 3 };

/* Device memory of a chunk of t tokens. */
typedef struct lh_chunk_work {
    int32_t *ids, *positions, *rope_positions; /* [t] */
    float *x;                                  /* [t, hidden] */
    void *normed;                              /* [t, hidden], of the model's type */
    float *qkv;                                /* [t, (q_count + 2 kv_count) * head_dim] */
    float *attended;                           /* [t, q_count * head_dim] */
    void *attended_bf16;                       /* `attended` rounded to bf16; NULL in f32 */
    float *lse;                                /* [t, q_count] */
    float *gate_up;                            /* [t, 2 ff_count]; in a mixture [assignments, 2 ff_count] */
    void *gated;                               /* [t, ff_count]; in a mixture [assignments, ff_count] */
    float *squares;              /* [t, heads + kv_heads] of the whole model, only for norms over all heads */
    float *y;                    /* [t, hidden] */
    void *sums[LH_PENDING_SUMS]; /* [t, hidden] of bf16, for a prompt's chunks; NULL unless ranks round sums */
    float *products;             /* [logical shards, t, hidden], only for the reproducible order */
} lh_chunk_work;

/* Workspace of a chunk of t tokens in a mixture of experts; assignments: t * top_k. */
typedef struct lh_expert_work {
    float *logits;    /* [t, experts], router logits */
    lh_routes routes; /* routes of the current layer; its arrays hold t tokens */
    void *rows;       /* [assignments, hidden], of the model's type */
    float *outputs;   /* [assignments, hidden] */
} lh_expert_work;

/* The last rows of a call and their logits, in device memory. */
typedef struct lh_last_rows {
    int64_t next;                       /* rows that prefills and blocks keep */
    int64_t cap;                        /* rows allocated */
    int64_t n;                          /* rows of the last call */
    float *x;                           /* [cap, hidden] */
    void *normed;                       /* [cap, hidden] */
    float *logits;                      /* [cap, vocab_count] */
    int32_t *greedy;                    /* host, [LH_BEST_MAX]: tokens of the largest logits of the rows ... */
    int64_t greedy_first, greedy_count; /* ... from row greedy_first on; count 0: not known */
    int64_t call;                       /* calls that have made rows */
} lh_last_rows;

/* How the rows of a sequence are rotated. */
typedef struct lh_row_rope {
    const lh_rotation *rotation;
    int keys_unrotated; /* true if keys are appended without rotation */
} lh_row_rope;

/* Sequences whose tokens pass through the layers together, with the same number of tokens each: host arrays with one
 * element per sequence. */
typedef struct lh_sequences {
    int64_t n, tokens;
    lh_kv **kvs;
    int64_t *first;        /* position of the first token */
    lh_ragged *views;      /* caches of the current layer */
    lh_row_rope *ropes;    /* rotations of the current layer */
    lh_row_logits *logits; /* logits of the current layer, for single rows */
    int unpacks;           /* true if products take unpacked weights */
} lh_sequences;

/* A layer whose weights of few bits are unpacked. */
typedef struct lh_unpacked_layer {
    char *memory;  /* NULL: no matrix has few bits, or sums have a fixed order */
    int64_t layer; /* -1: none */
    lh_layer weights;
} lh_unpacked_layer;

struct lh_forward {
    lh_model *model;
    const lh_config *config;
    const lh_shard *shard;
    lh_exec exec;
    lh_device *device;
    int64_t chunk;    /* maximum tokens that pass through a layer together */
    int64_t together; /* maximum sequences of a step */
    int32_t *numbers; /* host, [max(chunk, together)] */
    lh_logical_shards head_shards, block_shards;
    int64_t *gather_bytes, *gather_at; /* [ranks] */
    lh_chunk_work work;
    lh_expert_work experts;
    lh_unpacked_layer unpacked;
    lh_last_rows last_rows;
    lh_sequences sequences;
    lh_sample_room room;
    lh_captured_step step;
};

/* ---- forward.c: failures are latched (exec.h) ---- */

/* Sets the call's only sequence: `tokens` tokens from position `first` on. */
void lh_forward_single_sequence(lh_forward *f, lh_kv *kv, int64_t first, int64_t tokens);

/* Uploads the positions of the tokens of f->sequences into f->work.positions. */
void lh_forward_put_positions(lh_forward *f);

/* x[0 .. n) = embeddings of the tokens in f->work.ids. */
void lh_forward_embed(lh_forward *f, int64_t n, float *x);

/* Passes the tokens of f->sequences, in f->work.ids, through all layers; the result is in f->work.x. room: tokens that
 * each cache must have slots for. */
lh_status lh_forward_through_layers(lh_forward *f, int64_t room);

/* Sets the number of rows of the call's logits. */
void lh_forward_set_rows(lh_forward *f, int64_t rows);

/* Logits of rows: norm, then lm_head. */
void lh_forward_compute_logits(lh_forward *f, const float *x, int64_t rows);

/* ---- unpacked.c ---- */
/* Begins a prompt, or a chunk of a question, of `rows` rows: with many of them, products take unpacked weights. Steps
 * have 0 here: they take few bits with any number of sequences, since a captured step cannot know which layer is
 * unpacked. */
void lh_forward_set_call(lh_forward *f, int64_t rows);

/* The weights of a layer for the call's products, unpacked where they were not. */
const lh_layer *lh_forward_layer(lh_forward *f, int64_t layer);

/* ---- layer.c: one decoder layer over rows of the sequences of a call; failures are latched (exec.h) ---- */
/* The rows of f->sequences in a layer, with its views and rotations. */
typedef struct lh_rows_at {
    int64_t layer;
    const int32_t
        *rope_positions; /* device, [rows]: rotary positions of queries and keys; NULL: the positions of the tokens */
    float *x;            /* [rows, hidden], updated in place */
    int leaves_len;      /* true: lh_layer_attend counts the entries of lh_layer_append */
    const void *addend;  /* NULL, or [rows, hidden] of bf16 that lh_layer_mlp adds to x first */
} lh_rows_at;

/* An all-reduce that is added to rows of x later, so that it overlaps other work. */
typedef struct lh_pending_sum {
    void *parts; /* device, [rows, hidden] of bf16, in f->work.sums: this rank's part, then the sum */
    float *x;    /* NULL: no all-reduce is pending */
    int64_t rows;
} lh_pending_sum;

/* Norm, projections, rotation; appends keys and values to the caches and leaves rotated queries in f->work.qkv. */
void lh_layer_append(lh_forward *f, const lh_rows_at *rows);

/* Attention of the queries in f->work.qkv into f->work.attended; records the rows in caches that observe rows.
 * Collective if lh_kv_record is. */
void lh_layer_attend(lh_forward *f, const lh_rows_at *rows);

/* Output projection, added to x; and the MLP of x, added to it. Collective. pending: NULL, or receives the all-reduce
 * if ranks round sums (lh_model_options); x is complete after lh_layer_add_pending. */
void lh_layer_project(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending);
void lh_layer_mlp(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending);

/* Adds the pending sum, if there is one, after lh_exec_wait. */
void lh_layer_add_pending(lh_forward *f, lh_pending_sum *pending);

#endif
