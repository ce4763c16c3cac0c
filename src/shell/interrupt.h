/* interrupt.h - an interrupt of any rank ends the run on all of them. */
#ifndef LH_SHELL_INTERRUPT_H
#define LH_SHELL_INTERRUPT_H

#include "base/interrupt.h"
#include "comm/comm.h"

/* Collective. The most urgent of the signals that any rank got (base/interrupt.h), on all ranks: rank 0 then saves what
 * there is, and all leave with LH_EINTERRUPTED (lh_comm_leave). Costs an all-reduce of 8 bytes. */
lh_interrupt lh_shell_interrupted(lh_comm *comm);

/* The same, with *any: 1 on any rank is 1 on all. */
lh_interrupt lh_shell_interrupted_any(lh_comm *comm, int *any);

#endif
