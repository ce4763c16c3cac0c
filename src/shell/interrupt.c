#include "shell/interrupt.h"

lh_interrupt lh_shell_interrupted(lh_comm *comm)
{
    int none = 0;
    return lh_shell_interrupted_any(comm, &none);
}

lh_interrupt lh_shell_interrupted_any(lh_comm *comm, int *any)
{
    int32_t asked[2] = {(int32_t)lh_interrupt_asked(), *any};
    /* If this fails, so does the next collective, which can report it. */
    if (lh_comm_allreduce(comm, asked, 2, LH_I32, LH_MAX) != LH_OK) return LH_INTERRUPT_NONE;
    *any = asked[1];
    return (lh_interrupt)asked[0];
}
