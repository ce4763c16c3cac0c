/* process.h - other processes of this host. */
#ifndef LH_BASE_PROCESS_H
#define LH_BASE_PROCESS_H

#include <stdint.h>

typedef struct lh_process {
    char name[64];
    char state; /* 'R', 'S', 'Z', … */
    long parent;
    int64_t began_s; /* since 1970 */
} lh_process;

/* 0: there is none of that number, or the system does not say. */
int lh_process_read(long pid, lh_process *out);

/* 1 where process `pid` may have made a file that was last changed at `changed_s` (since 1970): it runs, and has not
 * begun long after that. A process that has ended and that its parent has not asked for does not run. Where the system
 * says no more than that there is such a process, 1. */
int lh_process_may_own(long pid, int64_t changed_s);

#endif
