/* sdpa_arrays.h - what cuDNN's attention is given and gives (sdpa_plan.h), made of the arguments of attend_block and
 * brought to where its results belong. */
#ifndef LH_KERNELS_CUDA_SDPA_ARRAYS_H
#define LH_KERNELS_CUDA_SDPA_ARRAYS_H

#include "kernels/ops.h"

typedef struct lh_sdpa_arrays {
    void *q, *o; /* [kv_heads, tokens, group, dim] bf16, tokens: the block's */
    float *lse;  /* [kv_heads, group, lse_ld] */
    int32_t *rows, *len;
    int64_t *starts, *q_starts;
    int64_t lse_ld; /* tokens of the plan */
} lh_sdpa_arrays;

/* The map of `a` has whole groups, and its dimensions are multiples of 8. */
lh_status lh_sdpa_prepare(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays);
lh_status lh_sdpa_finish(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays);

/* Counts of rows; `far` are further off than two ways of rounding explain, in their sums or their log-sum-exp. */
typedef struct lh_sdpa_off {
    uint32_t far, nan; /* nan: NaN, where the other way has numbers */
} lh_sdpa_off;

/* *off += rows of a->o and a->lse, compared with o [tokens, heads, dim] and lse [tokens, heads]. */
lh_status lh_sdpa_compare(lh_stream *stream, const lh_attend_block_args *a, const float *o, const float *lse,
                          lh_sdpa_off *off);

#endif
