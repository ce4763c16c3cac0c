/* host_cores.c - the cores of the calling thread, and those of OpenMP's places. */
#include "device/host_cores.h"

#include <omp.h>

void lh_host_cores(cpu_set_t *cores)
{
    int ids[CPU_SETSIZE];
    CPU_ZERO(cores);
    if (sched_getaffinity(0, sizeof *cores, cores) != 0) CPU_SET(0, cores);
    for (int p = 0; p < omp_get_num_places(); p++) {
        const int n = omp_get_place_num_procs(p);
        if (n > CPU_SETSIZE) continue;
        omp_get_place_proc_ids(p, ids);
        for (int i = 0; i < n; i++)
            if (ids[i] >= 0 && ids[i] < CPU_SETSIZE) CPU_SET(ids[i], cores);
    }
}
