#include "cli/interrupt.h"

lh_interrupt lh_cli_interrupted(lh_comm *comm)
{
    int32_t asked = lh_interrupt_asked();
    /* If this fails, so does the next collective, which can report it. */
    if (lh_comm_allreduce(comm, &asked, 1, LH_I32, LH_MAX) != LH_OK) return LH_INTERRUPT_NONE;
    return (lh_interrupt)asked;
}
