/* attend_cudnn.h - attention of blocks of rows by cuDNN, where it takes the case: over bf16 caches, without a window
 * (positions are known to the device alone) and without a soft cap, heads of multiples of 8 dimensions, up to 256, and
 * whole groups of query heads. Lengths stay in device memory: any cache, also one of which heads have lengths of their
 * own. A stream has one plan, which lh_ops.prepare_attend begins. Which blocks are cuDNN's follows from their shape and
 * from what was prepared, never from how far the plan is: the first of them waits for it. What cuDNN gives is compared
 * with what our kernel gives, for the first block of a plan and the first over every new arena, which wait for the
 * stream; where it differs, or a run fails, or cuDNN refuses the shape, it is not asked again. */
#ifndef LH_KERNELS_CUDA_ATTEND_CUDNN_H
#define LH_KERNELS_CUDA_ATTEND_CUDNN_H

#include "kernels/ops.h"

/* Opens cuDNN on a stream. A library that is missing is no failure. */
lh_status lh_sdpa_open(lh_stream *stream);

/* *done = 1: it has been: a block of 64 rows or more over 2,048 entries or more (`most` of the arguments), with
 * LH_ORDER_ANY, of the shape that was prepared. */
lh_status lh_sdpa_attend(lh_stream *stream, const lh_attend_block_args *a, int *done);

/* attend_block by our own kernel (attend_block.cu), without scratch. */
lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *a);

/* sdpa_arrays.h - what cuDNN's attention is given and gives (sdpa_plan.h), made of the arguments of attend_block and
 * brought to where its results belong. */
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
