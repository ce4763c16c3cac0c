/* threads.c - divides the cores of a host among its ranks. What a launcher keeps from them by binding is seen from the
 * launcher's own cores: these are the allocation, where a batch system or a container gives less than the host. */
#include "engine/threads.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"

/* Host and allowed cores of a rank. */
typedef struct rank_cores {
    char host[64];
    cpu_set_t cores;
} rank_cores;

static int is_launcher(const char *name)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun",       "orted",           "prterun",
                                        "prted",  "prte",    "mpiexec.hydra", "hydra_pmi_proxy", NULL};
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

/* The cores of the launcher among the parents of this process; 0: there is none. */
static int launcher_cores(cpu_set_t *cores)
{
    enum { GENERATIONS = 16 };
    lh_process p;
    long pid = getppid();
    for (int i = 0; i < GENERATIONS && pid > 1 && lh_process_read(pid, &p); i++, pid = p.parent)
        if (is_launcher(p.name)) return sched_getaffinity((pid_t)pid, sizeof *cores, cores) == 0;
    return 0;
}

lh_status lh_threads_share(lh_comm *world, lh_threads *out)
{
    lh_status st = LH_OK;
    int size = lh_comm_size(world);
    rank_cores own = {0}, *all = NULL;
    cpu_set_t host;
    double share = 0;
    CPU_ZERO(&host);
    strncpy(own.host, lh_comm_host(world), sizeof own.host - 1);
    if (sched_getaffinity(0, sizeof own.cores, &own.cores) != 0) CPU_SET(0, &own.cores);
    if (!launcher_cores(&host)) CPU_ZERO(&host);
    st = lh_calloc(&all, size, sizeof *all);
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(lh_comm_allgather(world, &own, all, sizeof own));
    *out = (lh_threads){.cores = CPU_COUNT(&own.cores), .host = CPU_COUNT(&host)};
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int sharing = 0;
        for (int r = 0; r < size; r++) sharing += strcmp(all[r].host, own.host) == 0 && CPU_ISSET(c, &all[r].cores);
        if (CPU_ISSET(c, &own.cores)) share += 1.0 / sharing;
        if (CPU_ISSET(c, &host)) out->idle += sharing == 0;
    }
    out->share = share < 1 ? 1 : (int64_t)(share + 1e-6);
done:
    lh_free(all);
    return st;
}
