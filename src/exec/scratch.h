/* scratch.h - the scratch stack of an execution context: device memory of temporaries. What was allocated after a mark
 * is free again when the stack is released to the mark.
 *
 * The memory is reserved before the work begins, as large as a dry run on a device that only counts (counting.h) has
 * shown to be needed; then no allocation of the work can fail, and addresses stay the same from one run of the work to
 * the next, as captured CUDA graphs require. An allocation beyond the reserved memory gets a block of its own from the
 * device until it is released: with nothing reserved, the device sees every allocation. */
#ifndef LH_EXEC_SCRATCH_H
#define LH_EXEC_SCRATCH_H

#include "exec/exec.h"

typedef struct lh_scratch_block lh_scratch_block;

/* Zeros: an empty stack with nothing reserved. */
struct lh_scratch {
    char *reserved;
    int64_t bytes;          /* reserved */
    int64_t top;            /* bytes in use */
    lh_scratch_block *more; /* the last block beyond the reserved memory; NULL: none */
};

/* Reserves exactly `bytes` bytes, counted as LH_MEM_WORK, in place of what was reserved before; 0 frees the memory. The
 * stack must be empty. */
lh_status lh_scratch_reserve(const lh_exec *exec, int64_t bytes);

/* `bytes` bytes, 64-byte aligned, uninitialised; NULL for 0 bytes, and after a failure, which is latched. */
void *lh_scratch_alloc(const lh_exec *exec, int64_t bytes);

int64_t lh_scratch_mark(const lh_exec *exec);
void lh_scratch_release(const lh_exec *exec, int64_t mark);

#endif
