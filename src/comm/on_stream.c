/* on_stream.c - communicators for the memory of a stream's device, on top of a communicator for host memory: direct if
 * the device is the host, staged through page-locked memory otherwise, trivial for a single rank. nccl_comm.c bypasses
 * the host. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_impl.h"

typedef struct over {
    lh_comm *host;
    lh_stream *stream;
} over;

static void close_over(lh_comm *comm)
{
    lh_free(comm->impl);
}

static lh_status flush(lh_comm *comm)
{
    const over *o = comm->impl;
    return lh_stream_sync(o->stream);
}

/* ---- direct: the host's own memory ---- */

static lh_status direct_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    const over *o = comm->impl;
    return o->host->ops->allreduce(o->host, buf, count, type, op);
}

static lh_status direct_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    const over *o = comm->impl;
    return o->host->ops->allgather(o->host, send, recv, bytes);
}

static lh_status direct_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    const over *o = comm->impl;
    return o->host->ops->allgatherv(o->host, send, recv, bytes, at);
}

static lh_status direct_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                                const int64_t *at)
{
    const over *o = comm->impl;
    return o->host->ops->gatherv(o->host, root, send, recv, bytes, at);
}

static lh_status direct_bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    const over *o = comm->impl;
    return o->host->ops->bcast(o->host, root, buf, bytes);
}

static const lh_comm_ops direct_ops = {.name = "direct",
                                       .close = close_over,
                                       .allreduce = direct_allreduce,
                                       .allgather = direct_allgather,
                                       .allgatherv = direct_allgatherv,
                                       .gatherv = direct_gatherv,
                                       .bcast = direct_bcast,
                                       .flush = flush};

/* ---- a single rank: nothing is sent, nothing waits ---- */

static lh_status alone_reduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    (void)comm, (void)buf, (void)count, (void)type, (void)op;
    return LH_OK;
}

static lh_status alone_gather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    const over *o = comm->impl;
    return send == recv ? LH_OK : lh_stream_copy(o->stream, recv, send, bytes, LH_COPY_ON_DEVICE);
}

static lh_status alone_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    return alone_gather(comm, send, (char *)recv + at[0], bytes[0]);
}

static lh_status alone_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                               const int64_t *at)
{
    (void)root;
    return alone_allgatherv(comm, send, recv, bytes, at);
}

static lh_status alone_bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    (void)comm, (void)root, (void)buf, (void)bytes;
    return LH_OK;
}

static lh_status nothing_to_flush(lh_comm *comm)
{
    (void)comm;
    return LH_OK;
}

static const lh_comm_ops alone_ops = {.name = "alone",
                                      .enqueues = 1,
                                      .close = close_over,
                                      .allreduce = alone_reduce,
                                      .allgather = alone_gather,
                                      .allgatherv = alone_allgatherv,
                                      .gatherv = alone_gatherv,
                                      .bcast = alone_bcast,
                                      .flush = nothing_to_flush};

/* ---- staged: a rank whose copies fail still takes part in the collective, with any contents, and fails afterwards,
 * because its peers would wait for it ---- */

/* Bytes of a reduction that are staged at a time. */
static const int64_t PIECE_BYTES = 32 << 20;

static void keep_first(lh_status *st, lh_status other)
{
    if (*st == LH_OK) *st = other;
}

/* Copies to or from the host, and waits. */
static lh_status copy_and_wait(const over *o, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    LH_TRY(lh_stream_copy(o->stream, dst, src, bytes, way));
    LH_TRY(lh_stream_sync(o->stream));
    return LH_OK;
}

static lh_status staged_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    lh_status st = LH_OK, own = LH_OK;
    const over *o = comm->impl;
    int64_t element = lh_dtype_bytes(type), piece = PIECE_BYTES / element;
    void *host = NULL;
    LH_TRY(lh_stream_staging(o->stream, &host, (count < piece ? count : piece) * element));
    for (int64_t done = 0; done < count; done += piece) {
        int64_t n = count - done < piece ? count - done : piece;
        char *at = (char *)buf + done * element;
        keep_first(&own, copy_and_wait(o, host, at, n * element, LH_COPY_TO_HOST));
        LH_TRY(o->host->ops->allreduce(o->host, host, n, type, op));
        keep_first(&own, copy_and_wait(o, at, host, n * element, LH_COPY_TO_DEVICE));
    }
    st = own;
    return st;
}

/* The range of bytes that the blocks of all ranks cover. */
typedef struct extent {
    int64_t first, bytes;
} extent;

static extent extent_of(const lh_comm *comm, const int64_t *bytes, const int64_t *at)
{
    int64_t first = INT64_MAX, end = 0;
    for (int r = 0; r < comm->size; r++) {
        if (!bytes[r]) continue;
        if (at[r] < first) first = at[r];
        if (at[r] + bytes[r] > end) end = at[r] + bytes[r];
    }
    return first < end ? (extent){first, end - first} : (extent){0, 0};
}

/* Copies the blocks of all ranks from the host to the device. */
static lh_status put_blocks(const lh_comm *comm, const char *host, char *recv, const int64_t *bytes, const int64_t *at)
{
    const over *o = comm->impl;
    for (int r = 0; r < comm->size; r++)
        LH_TRY(lh_stream_copy(o->stream, recv + at[r], host + at[r], bytes[r], LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(o->stream));
    return LH_OK;
}

/* root < 0: every rank gets the result. */
static lh_status staged_gather(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                               const int64_t *at)
{
    lh_status st = LH_OK, own = LH_OK;
    const over *o = comm->impl;
    extent all = extent_of(comm, bytes, at);
    char *host = NULL;
    LH_TRY(lh_stream_staging(o->stream, &host, all.bytes ? all.bytes : 1));
    host -= all.first;
    if (bytes[comm->rank]) own = copy_and_wait(o, host + at[comm->rank], send, bytes[comm->rank], LH_COPY_TO_HOST);
    LH_TRY(root < 0 ? o->host->ops->allgatherv(o->host, host + at[comm->rank], host, bytes, at)
                    : o->host->ops->gatherv(o->host, root, host + at[comm->rank], host, bytes, at));
    if (root < 0 || root == comm->rank) keep_first(&own, put_blocks(comm, host, recv, bytes, at));
    st = own;
    return st;
}

static lh_status staged_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    return staged_gather(comm, -1, send, recv, bytes, at);
}

static lh_status staged_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                                const int64_t *at)
{
    return staged_gather(comm, root, send, recv, bytes, at);
}

static lh_status staged_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    lh_status st = LH_OK;
    int64_t *all = NULL;
    LH_TRY_DONE(lh_calloc(&all, 2 * comm->size, sizeof *all));
    for (int r = 0; r < comm->size; r++) {
        all[r] = bytes;
        all[comm->size + r] = r * bytes;
    }
    st = staged_gather(comm, -1, send, recv, all, all + comm->size);
done:
    lh_free(all);
    return st;
}

static lh_status staged_bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    lh_status st = LH_OK, own = LH_OK;
    const over *o = comm->impl;
    void *host = NULL;
    if (!bytes) return LH_OK;
    LH_TRY(lh_stream_staging(o->stream, &host, bytes));
    if (comm->rank == root) own = copy_and_wait(o, host, buf, bytes, LH_COPY_TO_HOST);
    LH_TRY(o->host->ops->bcast(o->host, root, host, bytes));
    if (comm->rank != root) own = copy_and_wait(o, buf, host, bytes, LH_COPY_TO_DEVICE);
    st = own;
    return st;
}

static const lh_comm_ops staged_ops = {.name = "staged",
                                       .close = close_over,
                                       .allreduce = staged_allreduce,
                                       .allgather = staged_allgather,
                                       .allgatherv = staged_allgatherv,
                                       .gatherv = staged_gatherv,
                                       .bcast = staged_bcast,
                                       .flush = flush};

/* ---- opening ---- */

static lh_status open_over(lh_comm *comm, const lh_comm_on *on, const lh_comm_ops *ops)
{
    over *o = NULL;
    LH_TRY(lh_calloc(&o, 1, sizeof *o));
    *o = (over){on->host, on->stream};
    comm->impl = o;
    comm->ops = ops;
    return LH_OK;
}

/* A communicator with the ranks and world of `host`, without ops. */
static lh_status create_like(lh_comm **out, lh_comm *host)
{
    lh_comm *comm = NULL;
    LH_TRY(lh_calloc(&comm, 1, sizeof *comm));
    *comm = *host;
    comm->ops = NULL;
    comm->impl = NULL;
    comm->words = NULL;
    comm->sent_bytes = 0;
    comm->world->refs++;
    *out = comm;
    return LH_OK;
}

static lh_status open_way(lh_comm *comm, const lh_comm_on *on)
{
    lh_status st = LH_OK;
    int on_host = lh_device_kind_of(lh_stream_device(on->stream)) == LH_DEVICE_CPU;
    if (on->way == LH_COMM_STAGED) return open_over(comm, on, &staged_ops);
    if (on->way == LH_COMM_DIRECT && !on_host) LH_FAIL(LH_EINTERNAL, "device memory cannot be sent directly");
    if (on_host && on->way != LH_COMM_NCCL) return open_over(comm, on, &direct_ops);
    if (on->host->size == 1) return open_over(comm, on, &alone_ops);
    if (on->way == LH_COMM_NCCL) return lh_comm_open_nccl(comm, on);
    st = on->one_device_per_rank ? lh_comm_open_nccl(comm, on) : LH_EUSAGE;
    if (st != LH_EUSAGE) return st;
    if (on->one_device_per_rank)
        lh_warn("device memory is sent through the host: %s", lh_error_message());
    else
        lh_debug("device memory is sent through the host: ranks share a device");
    lh_error_clear();
    return open_over(comm, on, &staged_ops);
    return st;
}

lh_status lh_comm_open_on(lh_comm **out, const lh_comm_on *on)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    LH_TRY_DONE(create_like(&comm, on->host));
    LH_TRY_DONE(open_way(comm, on));
    *out = comm;
    comm = NULL;
done:
    lh_comm_close(comm);
    return st;
}
