/* counting.h - an execution context that computes nothing and counts memory: code that runs in it allocates what it
 * would allocate on a device of that kind, as one rank of several, and lh_device_usage says how much that is. */
#ifndef LH_EXEC_COUNTING_H
#define LH_EXEC_COUNTING_H

#include "exec/exec.h"

typedef struct lh_counting {
    lh_exec exec;
    lh_device *device;
} lh_counting;

lh_status lh_counting_open(lh_counting *out, lh_device_kind kind, int rank, int ranks);
void lh_counting_close(lh_counting *counting); /* all of it was freed; what open left half done is fine */

#endif
