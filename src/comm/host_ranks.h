/* host_ranks.h - collectives of ranks on one host, in shared memory: MPI's take several times as long for the megabytes
 * of a prefill chunk, and a rank that waits in MPI takes a core from the ranks that it waits for. Buffers are in host
 * memory; a collective returns when this rank has done its part. Lengths and roots are the same on all ranks: unlike
 * MPI's, these collectives do not notice others. There is no timeout, as in MPI: the watchdog ends a rank if a peer
 * does not arrive. */
#ifndef LH_COMM_HOST_RANKS_H
#define LH_COMM_HOST_RANKS_H

#include <mpi.h>
#include <stdint.h>

#include "base/status.h"

typedef struct lh_host_ranks lh_host_ranks;

/* What a waiting rank does meanwhile. Returns 1 if it has more to do: then the rank does not sleep. */
typedef int lh_host_work(void *self);

/* Collective over `ranks`, which the caller keeps. *out is NULL on every rank if they are on several hosts or cannot
 * share memory. */
lh_status lh_host_ranks_open(lh_host_ranks **out, MPI_Comm ranks, lh_host_work *work, void *self);
void lh_host_ranks_close(lh_host_ranks *h); /* collective; NULL is fine */

/* Returns when every rank has called it. */
void lh_host_ranks_meet(lh_host_ranks *h);

/* buf = the sum of all ranks' buffers, added in the order of ranks: the same bits on every rank. Returns MPI's code. */
int lh_host_ranks_reduce(lh_host_ranks *h, void *buf, int64_t bytes, MPI_Datatype type, MPI_Op op);

void lh_host_ranks_bcast(lh_host_ranks *h, int root, void *buf, int64_t bytes);

/* all + at[r] = the bytes[r] bytes of rank r, on rank `root`, or on every rank if it is LH_EVERY_RANK; `own` may lie at
 * its place there. */
enum { LH_EVERY_RANK = -1 };
void lh_host_ranks_gather(lh_host_ranks *h, int root, const void *own, void *all, const int64_t *bytes,
                          const int64_t *at);

/* Every rank gets the blocks of all ranks, in their order; every block has `bytes`. */
void lh_host_ranks_allgather(lh_host_ranks *h, const void *own, void *all, int64_t bytes);

#endif
