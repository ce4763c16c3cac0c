/* process.h - other processes of this host. */
#ifndef LH_BASE_PROCESS_H
#define LH_BASE_PROCESS_H

#include <stdint.h>

/* 1 where process `pid` may have made a file that was last changed at `changed_s` (since 1970): it runs, and has not
 * begun long after that. A process that has ended and that its parent has not asked for does not run. Where the system
 * says no more than that there is such a process, 1. */
int lh_process_may_own(long pid, int64_t changed_s);

#endif
