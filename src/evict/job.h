/* job.h - what an evictor is given: the shape of a model, a layer of it, query rows that are observed, and one
 * eviction. */
#ifndef LH_EVICT_JOB_H
#define LH_EVICT_JOB_H

#include "exec/exec.h"
#include "exec/heads.h"
#include "policies/method.h"

/* What eviction needs to know of a model. */
typedef struct lh_evict_shape {
    lh_heads heads;
    int64_t head_dim, hidden;
    float scale, softcap; /* of the logits */
    int64_t layers;       /* for budgets over all of them */
    lh_order order;       /* of sums of products */
} lh_evict_shape;

/* The output projection of a layer, for policies that weigh values by what it makes of them: this rank's columns. */
typedef struct lh_projection {
    const void *w; /* [hidden, q_count * head_dim] with `ld` */
    lh_dtype type;
    int64_t ld;
} lh_projection;

/* What an eviction needs of a layer of the model. */
typedef struct lh_evict_layer {
    int64_t index;
    int64_t window;                  /* keys that a row sees, in a sliding layer; 0: all */
    const lh_projection *projection; /* NULL where no policy asks for it */
    const lh_rotation *rotation;
} lh_evict_layer;

/* Query rows of this rank's query heads, rotated: q [tokens, q_count, head_dim], rows q_ld apart. */
typedef struct lh_query_rows {
    const float *q;
    const float *lse;         /* [tokens, q_count] log-sum-exps over all keys that a row sees; NULL: not known */
    lh_row_logits logits;     /* of a single row, as attend_decode left them; at NULL: not known */
    const int32_t *positions; /* [tokens], device */
    int64_t first, tokens, first_rows; /* row r is at first + r, but for the first `first_rows`, which are at r */
    int64_t q_ld;
} lh_query_rows;

/* What rows gave to the entries, counted before (counted_rows.h). */
typedef struct lh_counted_rows {
    float *sums; /* device, [kv_count x parts, ld] */
    int64_t ld;
    int64_t position; /* of the last row; -1: none */
} lh_counted_rows;

typedef enum lh_evict_phase { LH_EVICT_PREFILL, LH_EVICT_DECODE } lh_evict_phase;

/* One eviction, or the rows that pass before it. */
typedef struct lh_evict_job {
    lh_evict_phase phase;
    lh_evict_layer layer;
    const lh_ragged *entries; /* device */
    const int64_t *offset;    /* host, [kv_count]: of the heads; asked for where KV heads lie on several ranks */
    int64_t seen, visible_from;
    lh_protection protect;
    int64_t cols;                    /* slots of the longest head of all ranks, or more */
    int64_t number;                  /* of evictions of this layer before it */
    int ranked;                      /* entries compete and not all of them stay */
    int scored;                      /* they are ranked by more than their position */
    const int64_t *room;             /* [kv_heads of the model] entries that compete; with a profile */
    const lh_query_rows *rows;       /* observed rows; NULL: those that lh_evict_rows kept */
    const lh_query_rows *references; /* references that are rows of their own; NULL alike */
    const lh_counted_rows *counted;  /* in place of observing rows; NULL: none */
    int64_t *normless;               /* entries at the end of every head that have no norms yet; made, it is 0 */
} lh_evict_job;

#endif
