/* spin_control.h - keeps the OpenMP threads of this process from spinning on cores that other processes want.
 *
 * A thread that waits at the end of a parallel region spins: it is there when the next region begins, a
 * few microseconds later, and decoding is twice as fast as with threads that sleep. But a thread that spins on a core
 * which another process wants keeps that core from the thread it waits for, and decoding is 5 to 25 times slower than
 * with threads that sleep. So a control thread measures, 50 times a second, how long the OpenMP threads had to wait
 * for a core (/proc/…/schedstat): spinning is for machines on which they hardly do. */
#ifndef LH_ENGINE_SPIN_CONTROL_H
#define LH_ENGINE_SPIN_CONTROL_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_spin_control lh_spin_control;

/* For a team of `threads` OpenMP threads, to be used by the calling thread. *out is NULL where there is nothing to
 * control: a single thread, a system that does not say how long threads wait, or OMP_WAIT_POLICY or GOMP_SPINCOUNT in
 * the environment, which overrule. */
lh_status lh_spin_control_open(lh_spin_control **out, int64_t threads);
void lh_spin_control_close(lh_spin_control *control); /* NULL: nothing */

/* True if the machine is shared, so that waiting threads sleep immediately. False for NULL. */
int lh_spin_control_sleeps(const lh_spin_control *control);

/* Times of the OpenMP threads since they began: on a core, and waiting for one. */
typedef struct lh_core_times {
    double run_ns, delay_ns;
} lh_core_times;

/* The share of waiting of late, from the times of each interval. */
typedef struct lh_core_share {
    lh_core_times late; /* sums that fade */
    int shared;
} lh_core_share;

/* Takes one interval in; 1 if the cores are shared with other processes. It changes its mind only where the share is
 * clear: both limits lie far from the values measured on an idle machine (at most 0.1) and with one other process per
 * core (0.35 and more, spinning or not). */
int lh_core_share_add(lh_core_share *share, lh_core_times interval);

#endif
