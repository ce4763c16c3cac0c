/* scratch.h - the scratch stack of an execution context: device memory for temporaries. Releasing the stack to a mark
 * frees every allocation after the mark.
 *
 * The memory is reserved before the work begins; a dry run on a device that only counts (lh_counting) finds the size.
 * Then no allocation of the work can fail, and addresses stay the same from run to run, which captured CUDA graphs
 * require. An allocation beyond the reserved memory gets a separate block of the device until its release: if nothing
 * is reserved, the device counts every allocation. */
#ifndef LH_EXEC_SCRATCH_H
#define LH_EXEC_SCRATCH_H

#include "exec/exec.h"

typedef struct lh_scratch_block lh_scratch_block;

/* Zeros: an empty stack without reserved memory. */
struct lh_scratch {
    char *reserved;
    int64_t bytes;          /* reserved */
    int64_t top;            /* bytes in use */
    lh_scratch_block *more; /* the last block beyond the reserved memory; NULL: none */
};

/* Replaces the reserved memory by exactly `bytes` bytes, counted as LH_MEM_WORK; 0 frees the memory. The stack must be
 * empty. */
lh_status lh_scratch_reserve(const lh_exec *exec, int64_t bytes);

/* `bytes` bytes, 64-byte aligned, uninitialised; NULL for 0 bytes, and after a failure, which is latched. */
void *lh_scratch_alloc(const lh_exec *exec, int64_t bytes);

int64_t lh_scratch_mark(const lh_exec *exec);
void lh_scratch_release(const lh_exec *exec, int64_t mark);

#endif
