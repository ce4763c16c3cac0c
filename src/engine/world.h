/* world.h - how a run begins and ends on all its ranks. Opened first and closed last; between them every call is local
 * or collective as its header says. */
#ifndef LH_ENGINE_WORLD_H
#define LH_ENGINE_WORLD_H

#include "comm/comm.h"

typedef struct lh_world lh_world;

typedef struct lh_world_options {
    double comm_timeout_s; /* of the watchdog; 0: off */
    const char *const
        *files; /* HDF5 files that will be read, NULL-terminated: their structure is probed in a child process first */
    const char *same; /* text that all ranks must share, as the record of the options */
} lh_world_options;

/* Probe, start MPI when a launcher started us, compare options, agree. When it fails *out still holds a world that
 * lh_world_close can end. */
lh_status lh_world_open(lh_world **out, const lh_world_options *options);

/* The communicator of all ranks; NULL before MPI is up. */
lh_comm *lh_world_comm(const lh_world *world);

/* End the run. `st` is how it went on this rank: a failure that all agreed on is reported by rank 0, and all leave with
 * its code; one that is this rank's alone is reported here, with rank and host, and this process leaves at once without
 * waiting for anybody. Returns the exit code. NULL is fine. */
int lh_world_close(lh_world *world, lh_status st);

#endif
