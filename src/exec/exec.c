/* Latched errors: after a failure the operations of an execution context do nothing, and its collectives keep the ranks
 * together. */
#include "exec/exec.h"

#include "base/mem.h"

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

/* Finishes the work before a collective; the failure is local to this rank. */
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

lh_status lh_rotation_fetch(const lh_rotation *r, const lh_exec *x, float **out)
{
    int64_t bytes = r->rotary / 2 * (int64_t)sizeof **out;
    LH_TRY(lh_calloc(out, r->rotary / 2, sizeof **out));
    LH_TRY(lh_stream_copy(x->stream, *out, r->inv_freq, bytes, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(x->stream));
    return LH_OK;
}

lh_status lh_rotation_put_inverse(const lh_rotation *r, const lh_exec *x, float *device)
{
    lh_status st = LH_OK;
    int64_t half = r->rotary / 2;
    float *frequencies = NULL;
    LH_TRY_DONE(lh_rotation_fetch(r, x, &frequencies));
    for (int64_t i = 0; i < half; i++) frequencies[i] = -frequencies[i];
    LH_TRY_DONE(lh_stream_put(x->stream, device, frequencies, half * (int64_t)sizeof *device));
done:
    lh_free(frequencies);
    return st;
}

lh_query_scaling lh_rotation_unscaled(const lh_rotation *r)
{
    lh_query_scaling inverse = r->queries;
    inverse.inverse = !inverse.inverse;
    return inverse;
}

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
