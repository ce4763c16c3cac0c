/* attend_cudnn.h - attention of blocks of rows by cuDNN, where it takes the case: over bf16 caches, without a window
 * (positions are known to the device alone) and without a soft cap, heads of multiples of 8 dimensions, up to 256, and
 * whole groups of query heads. Lengths stay in device memory: any cache, also one of which heads have lengths of their
 * own. The first block of a shape builds a plan (half a second of the host) and waits for the stream, because what
 * cuDNN gives is compared with what our kernel gives once: where most rows differ, or cuDNN refuses the shape, it is
 * not asked again. */
#ifndef LH_KERNELS_CUDA_ATTEND_CUDNN_H
#define LH_KERNELS_CUDA_ATTEND_CUDNN_H

#include "kernels/ops.h"

/* *done = 1: it has been, with LH_ORDER_ANY and where it pays: as soon as the stream's blocks would have taken our
 * kernel as long as plans take to build (`most` of the arguments says about how much work they are). */
lh_status lh_sdpa_attend(lh_stream *stream, const lh_attend_block_args *a, int *done);

/* attend_block by our own kernel (attend_block.cu), without scratch. */
lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *a);

#endif
