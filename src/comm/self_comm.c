/* self_comm.c - the communicator of a single rank, without MPI: collectives copy from send to receive buffers. */
#include <string.h>

#include "comm/comm_impl.h"

static void close_self(lh_comm *comm)
{
    (void)comm;
}

static lh_status split(lh_comm *comm, int color, lh_comm *child)
{
    (void)comm, (void)color;
    child->ops = &lh_comm_self_ops;
    return LH_OK;
}

static lh_status allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    (void)comm, (void)buf, (void)count, (void)type, (void)op;
    return LH_OK;
}

static lh_status allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    (void)comm;
    if (bytes && send != recv) memcpy(recv, send, (size_t)bytes);
    return LH_OK;
}

static lh_status allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    return allgather(comm, send, (char *)recv + at[0], bytes[0]);
}

static lh_status gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    (void)root;
    return allgatherv(comm, send, recv, bytes, at);
}

static lh_status bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    (void)comm, (void)root, (void)buf, (void)bytes;
    return LH_OK;
}

static lh_status barrier(lh_comm *comm)
{
    (void)comm;
    return LH_OK;
}

const lh_comm_ops lh_comm_self_ops = {
    .name = "self",
    .close = close_self,
    .split = split,
    .allreduce = allreduce,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .gatherv = gatherv,
    .bcast = bcast,
    .barrier = barrier,
};

lh_status lh_comm_open_self(lh_comm **out)
{
    lh_status st = lh_comm_create(out);
    if (st == LH_OK) (*out)->ops = &lh_comm_self_ops;
    return st;
}
