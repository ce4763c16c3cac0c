/* no_nccl.c - a build without NCCL's header. */
#include <stdio.h>

#include "comm/comm_impl.h"

static const char missing[] = "this build has no NCCL (its header, nccl.h, was not found)";

lh_status lh_comm_open_nccl(lh_comm *comm, const lh_comm_on *on)
{
    (void)comm, (void)on;
    LH_FAIL(LH_EUSAGE, "%s", missing);
}

int lh_comm_nccl_found(char text[256])
{
    snprintf(text, 256, "%s", missing);
    return 0;
}
