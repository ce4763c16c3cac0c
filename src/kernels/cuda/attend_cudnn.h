/* attend_cudnn.h - attention of blocks of rows by cuDNN, where it supports the case: over bf16 caches, without a window
 * (positions are known only to the device) and without a soft cap, head_dim a multiple of 8, up to 256, and whole
 * groups of query heads. Lengths stay in device memory: any cache, also with heads of different lengths. A stream has
 * one plan, which lh_ops.prepare_attend starts to build. The blocks for cuDNN follow from their shape and the prepared
 * shape, not from the progress of the plan: the first of them waits for it: blocks of at least 64 rows over at least
 * 2,048 entries (`most` of the arguments), with LH_ORDER_ANY, of the prepared shape. */
#ifndef LH_KERNELS_CUDA_ATTEND_CUDNN_H
#define LH_KERNELS_CUDA_ATTEND_CUDNN_H

#include "kernels/cuda/attend_ways.h"

/* Opens cuDNN on a stream. A missing library is no failure. */
lh_status lh_sdpa_open(lh_stream *stream);

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

#endif
