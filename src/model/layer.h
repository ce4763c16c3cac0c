/* layer.h - one decoder layer over rows of the sequences of a call (layer.c). Failures are latched (exec.h). */
#ifndef LH_MODEL_LAYER_H
#define LH_MODEL_LAYER_H

#include "model/forward_impl.h"

/* The rows of f->sequences in a layer, which has views and turns of them. */
typedef struct lh_rows_at {
    int64_t layer;
    const int32_t *turns; /* device, [rows]: rotary positions of queries and keys; NULL: their positions */
    float *x;             /* [rows, hidden], updated in place */
} lh_rows_at;

/* Norm, projections, rotation; keys and values into the caches, rotated queries left in f->work.qkv. */
void lh_layer_append(lh_forward *f, const lh_rows_at *rows);

/* Attention of the queries in f->work.qkv into f->work.attended; caches that observe rows are given theirs. Collective
 * where lh_kv_record is. */
void lh_layer_attend(lh_forward *f, const lh_rows_at *rows);

/* Output projection, residual, MLP, residual. Collective. */
void lh_layer_output(lh_forward *f, const lh_rows_at *rows);

#endif
