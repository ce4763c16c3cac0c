/* host_reduce.h - all-reduce among ranks of one host through shared memory. MPI's own takes several times as long for
 * the megabytes of a prefill chunk, which are reduced twice per layer. */
#ifndef LH_COMM_HOST_REDUCE_H
#define LH_COMM_HOST_REDUCE_H

#include <mpi.h>
#include <stdint.h>

#include "base/status.h"

typedef struct lh_host_reduce lh_host_reduce;

/* Collective over `ranks`. *out is NULL on every rank if they are on several hosts or cannot share memory. */
lh_status lh_host_reduce_open(lh_host_reduce **out, MPI_Comm ranks);

/* Collective over the same ranks. NULL is fine. */
void lh_host_reduce_close(lh_host_reduce *h);

/* In place; `bytes` of elements that `type` describes. Adds in the order of ranks, so every rank has the same bits.
 * Waits without a timeout, as MPI does: the watchdog ends a rank whose peer does not arrive. Returns an MPI error
 * code. */
int lh_host_reduce_all(lh_host_reduce *h, void *buf, int64_t bytes, MPI_Datatype type, MPI_Op op);

#endif
