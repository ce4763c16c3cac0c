/* host_cores.h - the cores that this process may run on. */
#ifndef LH_DEVICE_HOST_CORES_H
#define LH_DEVICE_HOST_CORES_H

#include <sched.h>

/* As sched_getaffinity(2) has them when a program starts: where OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY bind its
 * threads, the calling thread may only run on one of them by now. */
void lh_host_cores(cpu_set_t *cores);

#endif
