/* failures.h - the failures of steps that do not depend on each other, such as the outputs of a run: one that cannot be
 * written must not prevent the others. All are taken, and the last line reports every one. */
#ifndef LH_BASE_FAILURES_H
#define LH_BASE_FAILURES_H

#include "base/status.h"

enum { LH_FAILURES_BYTES = 2048 };

/* All zero is none. */
typedef struct lh_failures {
    lh_status st; /* of the first */
    char text[LH_FAILURES_BYTES];
} lh_failures;

/* `st` is the status of a step, its message the calling thread's; LH_OK adds nothing. */
void lh_failures_add(lh_failures *failures, lh_status st);

/* LH_OK if there are none, else the status of the first, with the messages of all. */
lh_status lh_failures_end(const lh_failures *failures);

#endif
