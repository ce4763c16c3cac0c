/* query_moments.h - means and standard deviations of the channels of a model's queries, before their rotation, for each
 * KV head: of all rows of some prompts and all query heads of the group. '--refit' draws queries from them
 * (evict/drawn_queries.c). */
#ifndef LH_LAB_LEARN_QUERY_MOMENTS_H
#define LH_LAB_LEARN_QUERY_MOMENTS_H

#include "evict/evict.h"

typedef struct lh_query_moments {
    const lh_exec *exec;
    lh_heads heads;
    int64_t layers, head_dim;
    int64_t rows; /* of every query head of a layer so far */
    double *sums; /* device: [layers, 2, q_count, head_dim], of the channels and of their squares */
} lh_query_moments;

lh_status lh_query_moments_open(lh_query_moments *out, const lh_exec *exec, const lh_heads *heads, int64_t layers,
                                int64_t head_dim);
void lh_query_moments_close(lh_query_moments *m);

/* Adds the rows of a layer, without the first `skipped` ones of the prompt. */
void lh_query_moments_add(lh_query_moments *m, const lh_evict_job *job, const lh_query_rows *rows, int64_t skipped);

/* Collective. [2, head_dim] numbers of KV head g of layer l go to `to` + (l kv_heads + g) step, on every rank. */
lh_status lh_query_moments_share(const lh_query_moments *m, float *to, int64_t step);

#endif
