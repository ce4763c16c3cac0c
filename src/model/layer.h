/* layer.h - one decoder layer over rows of the sequences of a call (layer.c). Failures are latched (exec.h). */
#ifndef LH_MODEL_LAYER_H
#define LH_MODEL_LAYER_H

#include "model/forward_impl.h"

/* The rows of f->sequences in a layer, which has views and turns of them. */
typedef struct lh_rows_at {
    int64_t layer;
    const int32_t *rope_positions; /* device, [rows]: rotary positions of queries and keys; NULL: their positions */
    float *x;                      /* [rows, hidden], updated in place */
} lh_rows_at;

/* A sum over ranks that is added to rows of x later, so that it runs beside other work. */
typedef struct lh_pending_sum {
    void *parts; /* device, [rows, hidden] of bf16: this rank's, then the sum; of f->work.sums */
    float *x;    /* NULL: there is none */
    int64_t rows;
} lh_pending_sum;

/* Norm, projections, rotation; keys and values into the caches, rotated queries left in f->work.qkv. */
void lh_layer_append(lh_forward *f, const lh_rows_at *rows);

/* Attention of the queries in f->work.qkv into f->work.attended; caches that observe rows are given theirs. Collective
 * where lh_kv_record is. */
void lh_layer_attend(lh_forward *f, const lh_rows_at *rows);

/* Output projection, added to x; and the MLP of x, added to it. Collective. pending: NULL, or takes the sum if ranks
 * round it (lh_model_options); x has it after lh_layer_add_pending. */
void lh_layer_project(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending);
void lh_layer_mlp(lh_forward *f, const lh_rows_at *rows, lh_pending_sum *pending);

/* Adds the sum, if there is one. Needs lh_exec_wait after it was begun. */
void lh_layer_add_pending(lh_forward *f, lh_pending_sum *pending);

#endif
