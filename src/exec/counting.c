#include "exec/counting.h"

lh_status lh_counting_open(lh_counting *out, lh_device_kind kind, int rank, int ranks)
{
    *out = (lh_counting){.exec.ops = &lh_ops_counting};
    LH_TRY(lh_device_open(&out->device, &(lh_device_choice){.kind = kind, .counts_only = 1}));
    LH_TRY(lh_stream_open(&out->exec.stream, out->device));
    LH_TRY(lh_comm_open_counting(&out->exec.comm, &(lh_comm_counting){.rank = rank, .size = ranks}));
    return lh_comm_open_counting(&out->exec.device_comm,
                                 &(lh_comm_counting){.rank = rank, .size = ranks, .device_memory = 1});
}

void lh_counting_close(lh_counting *c)
{
    lh_comm_close(c->exec.device_comm);
    lh_comm_close(c->exec.comm);
    lh_stream_close(c->exec.stream);
    lh_device_close(c->device);
    *c = (lh_counting){0};
}
