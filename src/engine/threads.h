/* threads.h - number of threads of a rank. */
#ifndef LH_ENGINE_THREADS_H
#define LH_ENGINE_THREADS_H

#include "comm/comm.h"

/* Collective over the ranks of a run: *threads = sum over the cores that this process may run on of 1 / (ranks of this
 * host that may run on it), at least 1. Correct for ranks bound to cores, to sockets, or not at all. */
lh_status lh_threads_share(lh_comm *world, int64_t *threads);

#endif
