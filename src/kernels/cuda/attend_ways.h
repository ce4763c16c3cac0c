/* attend_ways.h - ways to compute attention of blocks of rows other than our kernel for every case (attend_block.cu),
 * and the trust in their results. The first result of a kernel or plan is compared with our kernel's; of a way that
 * reads past the last entry of a head, so are the last rows of the first block in every new arena (lh_ragged). Each
 * comparison waits for the stream. After a difference or a failure our kernel computes this block and all later ones.
 */
#ifndef LH_KERNELS_CUDA_ATTEND_WAYS_H
#define LH_KERNELS_CUDA_ATTEND_WAYS_H

#include "kernels/ops.h"

/* Trust in the results of a kernel or plan. */
typedef struct lh_attend_trust {
    int compared;  /* true after the first comparison */
    char why[256]; /* the reason not to use it; "": it is used */
} lh_attend_trust;

typedef struct lh_attend_way {
    const char *name;
    int reads_past; /* true if it reads slots after the last entry of a head */
    /* Returns 1 if this way computes blocks such as `like` (its arrays are NULL), and begins what takes long. */
    int (*prepare)(lh_stream *stream, const lh_attend_block_args *like);
    /* *trust: of the kernel or plan that computes the block; NULL: this way does not. The choice depends on the
     * arguments and on earlier preparations, not on the time: it may wait for a preparation. */
    lh_status (*find)(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust **trust);
    /* Computes the block, or writes trust->why. */
    lh_status (*run)(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust *trust);
    /* trust->why was written after a run. NULL: nothing to do. */
    void (*drop)(lh_stream *stream);
} lh_attend_way;

extern const lh_attend_way lh_attend_hopper; /* attend_hopper.cu */
extern const lh_attend_way lh_attend_cudnn;  /* attend_cudnn.c */

/* attend_block by one way: *done = 1 if it has computed the block. */
lh_status lh_attend_by(const lh_attend_way *way, lh_stream *stream, const lh_attend_block_args *a, int *done);

/* attend_block by our kernel for every case, with workspace for splits only where the order of sums is free. */
lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *a);

/* Counts of rows. far: sums or log-sum-exp differ by more than rounding explains; nan: NaN where the other result is a
 * number. */
typedef struct lh_attend_off {
    uint32_t far, nan;
} lh_attend_off;

/* *off += differing rows of a->o and a->lse, compared with o [tokens, heads, dim] and lse [tokens, heads]. */
lh_status lh_attend_compare(lh_stream *stream, const lh_attend_block_args *a, const float *o, const float *lse,
                            lh_attend_off *off);

#endif
