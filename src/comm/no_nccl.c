/* no_nccl.c - lh_comm_open_nccl of a build without NCCL's header: always LH_EUSAGE. */
#include "comm/comm_impl.h"

lh_status lh_comm_open_nccl(lh_comm *comm, const lh_comm_on *on)
{
    (void)comm, (void)on;
    LH_FAIL(LH_EUSAGE, "this build has no NCCL (its header, nccl.h, was not found)");
}
