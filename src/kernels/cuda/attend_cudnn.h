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

#endif
