/* threads.h - how many threads a rank may run. */
#ifndef LH_ENGINE_THREADS_H
#define LH_ENGINE_THREADS_H

#include "comm/comm.h"

/* Collective over the ranks of a run: *threads = the cores that this process may run on, each divided by the ranks of
 * this host that may run on it, too; at least 1. So it is right whether the launcher binds ranks to cores, to sockets
 * or not at all. */
lh_status lh_threads_share(lh_comm *world, int64_t *threads);

#endif
