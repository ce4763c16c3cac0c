/* threads.c - divides the cores of a host among its ranks. */
#include "engine/threads.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"

/* Host and allowed cores of a rank. */
typedef struct rank_cores {
    char host[64];
    cpu_set_t cores;
} rank_cores;

lh_status lh_threads_share(lh_comm *world, int64_t *threads)
{
    lh_status st = LH_OK;
    int size = lh_comm_size(world);
    rank_cores own = {0}, *all = NULL;
    double share = 0;
    strncpy(own.host, lh_comm_host(world), sizeof own.host - 1);
    if (sched_getaffinity(0, sizeof own.cores, &own.cores) != 0) CPU_SET(0, &own.cores);
    st = lh_calloc(&all, size, sizeof *all);
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(lh_comm_allgather(world, &own, all, sizeof own));
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int sharing = 0;
        for (int r = 0; r < size; r++) sharing += strcmp(all[r].host, own.host) == 0 && CPU_ISSET(c, &all[r].cores);
        if (CPU_ISSET(c, &own.cores)) share += 1.0 / sharing;
    }
    *threads = share < 1 ? 1 : (int64_t)(share + 1e-6);
done:
    lh_free(all);
    return st;
}
