/* attend_cudnn.h - attention of blocks of rows by cuDNN, where it supports the case: over bf16 caches, without a window
 * (positions are known only to the device) and without a soft cap, head_dim a multiple of 8, up to 256, and whole
 * groups of query heads. Lengths stay in device memory: any cache, also with heads of different lengths. A stream has
 * one plan, which lh_ops.prepare_attend starts to build. The blocks for cuDNN follow from their shape and the prepared
 * shape, not from the progress of the plan: the first of them waits for it. Results are compared with our kernel's for
 * the first block of a plan and the first over every new arena, and these wait for the stream; after a difference, a
 * failure, or a shape that cuDNN refuses it is not used again. */
#ifndef LH_KERNELS_CUDA_ATTEND_CUDNN_H
#define LH_KERNELS_CUDA_ATTEND_CUDNN_H

#include "kernels/ops.h"

/* Opens cuDNN on a stream. A missing library is no failure. */
lh_status lh_sdpa_open(lh_stream *stream);

/* *done = 1 if cuDNN has computed it: a block of at least 64 rows over at least 2,048 entries (`most` of the
 * arguments), with LH_ORDER_ANY, of the prepared shape. */
lh_status lh_sdpa_attend(lh_stream *stream, const lh_attend_block_args *a, int *done);

/* attend_block by our kernel (attend_block.cu), without scratch. */
lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *a);

/* Inputs and outputs of cuDNN's attention (sdpa_plan.h). lh_sdpa_prepare fills them from the arguments of attend_block,
 * lh_sdpa_finish writes the results to their destination. */
typedef struct lh_sdpa_arrays {
    void *q, *o; /* [kv_heads, tokens, group, dim] bf16; tokens of the block */
    float *lse;  /* [kv_heads, group, lse_ld] */
    int32_t *rows, *len;
    int64_t *starts, *q_starts;
    int64_t lse_ld; /* tokens of the plan */
} lh_sdpa_arrays;

/* The map of `a` has whole groups, and its dimensions are multiples of 8. */
lh_status lh_sdpa_prepare(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays);
lh_status lh_sdpa_finish(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays);

/* Counts of rows. far: sums or log-sum-exp differ by more than rounding explains; nan: NaN where the other result is a
 * number. */
typedef struct lh_sdpa_off {
    uint32_t far, nan;
} lh_sdpa_off;

/* *off += differing rows of a->o and a->lse, compared with o [tokens, heads, dim] and lse [tokens, heads]. */
lh_status lh_sdpa_compare(lh_stream *stream, const lh_attend_block_args *a, const float *o, const float *lse,
                          lh_sdpa_off *off);

#endif
