/* Latched errors: what is enqueued through an execution context after a failure does nothing but keep the ranks
 * together. */
#include "exec/exec.h"

lh_device *lh_exec_device(const lh_exec *x)
{
    return lh_stream_device(x->stream);
}

int lh_exec_ok(const lh_exec *x)
{
    return lh_stream_status(x->stream) == LH_OK;
}

void lh_exec_latch(const lh_exec *x, lh_status st)
{
    lh_stream_latch(x->stream, st);
}

lh_status lh_exec_take(const lh_exec *x)
{
    return lh_stream_take(x->stream);
}

lh_status lh_exec_agree(const lh_exec *x)
{
    return lh_comm_agree(x->comm, lh_exec_take(x));
}

void lh_exec_copy(const lh_exec *x, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    LH_LATCH(x, lh_stream_copy(x->stream, dst, src, bytes, way));
}

void lh_exec_zero(const lh_exec *x, void *dst, int64_t bytes)
{
    LH_LATCH(x, lh_stream_zero(x->stream, dst, bytes));
}

void lh_exec_put(const lh_exec *x, void *dst, const void *src, int64_t bytes)
{
    LH_LATCH(x, lh_stream_put(x->stream, dst, src, bytes));
}

void lh_exec_sync(const lh_exec *x)
{
    LH_LATCH(x, lh_stream_sync(x->stream));
}

void lh_exec_fetch(const lh_exec *x, void *host, const void *src, int64_t bytes)
{
    lh_exec_copy(x, host, src, bytes, LH_COPY_TO_HOST);
    lh_exec_sync(x);
}

/* The work before a collective; its failure is this rank's alone. */
static void flush(const lh_exec *x)
{
    LH_LATCH(x, lh_comm_flush(x->device_comm));
}

void lh_exec_allreduce(const lh_exec *x, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    flush(x);
    lh_exec_latch(x, lh_comm_allreduce(x->device_comm, buf, count, type, op));
}

void lh_exec_allreduce_async(const lh_exec *x, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    flush(x);
    lh_exec_latch(x, lh_comm_allreduce_async(x->device_comm, buf, count, type, op));
}

void lh_exec_wait(const lh_exec *x)
{
    lh_exec_latch(x, lh_comm_wait(x->device_comm));
}

void lh_exec_allgather(const lh_exec *x, const void *send, void *recv, int64_t bytes)
{
    flush(x);
    lh_exec_latch(x, lh_comm_allgather(x->device_comm, send, recv, bytes));
}

void lh_exec_allgatherv(const lh_exec *x, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    flush(x);
    lh_exec_latch(x, lh_comm_allgatherv(x->device_comm, send, recv, bytes, at));
}
