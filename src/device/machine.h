/* machine.h - limits of the control groups of this process (Linux; version 1, version 2, or both mounted), and the
 * cores that it may run on. */
#ifndef LH_DEVICE_MACHINE_H
#define LH_DEVICE_MACHINE_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>

typedef enum lh_cgroup_version { LH_CGROUP_V1 = 1, LH_CGROUP_V2 } lh_cgroup_version;

/* Called with the folder of a group, which may be missing. */
typedef void lh_cgroup_visit(void *self, const char *folder, lh_cgroup_version version);

/* Visits the groups of this process for a controller such as "memory", and the parents of these groups. Every path lies
 * below `root` ("" for the machine itself; tests make a tree of files). */
void lh_cgroup_walk(const char *root, const char *controller, lh_cgroup_visit *visit, void *self);

/* folder/name, opened for reading; NULL when it is missing. */
FILE *lh_open_in(const char *folder, const char *name);

/* The smallest CPU quota of this process's groups: cpu.max of version 2, cpu.cfs_quota_us of version 1. */
typedef struct lh_cpu_quota {
    double cores; /* 0: there is no quota */
    uint64_t device,
        inode; /* of the folder of the group with the quota: processes with equal numbers share the quota */
} lh_cpu_quota;

void lh_cpu_quota_find(const char *root, lh_cpu_quota *out);

/* The cores of sched_getaffinity(2) when the program started: with OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY the
 * calling thread may be bound to one of them by now. */
void lh_host_cores(cpu_set_t *cores);

#endif
