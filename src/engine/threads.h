/* threads.h - number of threads of a rank, and the cores that its launcher leaves it. */
#ifndef LH_ENGINE_THREADS_H
#define LH_ENGINE_THREADS_H

#include "comm/comm.h"

/* Cores as sched_getaffinity(2) counts them. */
typedef struct lh_threads {
    int64_t
        share; /* threads of this rank: the sum over its cores of 1 / (ranks of this host that may run on it), at least
                  1. Correct for ranks bound to cores, to sockets, or not at all */
    int64_t cores; /* that this process may run on */
    int64_t host;  /* that mpirun, or its daemon on this host, may run on; 0: this process was started otherwise */
    int64_t idle;  /* those of them on which no rank of this host may run */
} lh_threads;

/* Collective over the ranks of a run. */
lh_status lh_threads_share(lh_comm *world, lh_threads *out);

#endif
