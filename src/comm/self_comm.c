/* self_comm.c - communicators without peers: of a single rank, where collectives copy from send to receive buffers, and
 * of one rank among peers that do not exist, for forecasts on a device that only counts. */
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
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

static lh_status do_nothing(lh_comm *comm)
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
    .barrier = do_nothing,
};

lh_status lh_comm_open_self(lh_comm **out)
{
    lh_status st = lh_comm_create(out);
    if (st == LH_OK) (*out)->ops = &lh_comm_self_ops;
    return st;
}

/* ---- counting, host memory: every rank is assumed to send this rank's data ---- */

/* Fills another rank's block, which may be longer, with repetitions of this rank's block. */
static void repeat(char *to, int64_t bytes, const void *own, int64_t own_bytes)
{
    for (int64_t done = 0, n; done < bytes && own_bytes > 0; done += n) {
        n = lh_min_i64(bytes - done, own_bytes);
        memmove(to + done, own, (size_t)n);
    }
}

static lh_status host_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    for (int r = 0; r < comm->size; r++) repeat((char *)recv + r * bytes, bytes, send, bytes);
    return LH_OK;
}

static lh_status host_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    for (int r = 0; r < comm->size; r++) repeat((char *)recv + at[r], bytes[r], send, bytes[comm->rank]);
    return LH_OK;
}

static lh_status host_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                              const int64_t *at)
{
    return comm->rank == root ? host_allgatherv(comm, send, recv, bytes, at) : LH_OK;
}

static const lh_comm_ops host_ops = {.name = "counting",
                                     .close = close_self,
                                     .allreduce = allreduce,
                                     .allgather = host_allgather,
                                     .allgatherv = host_allgatherv,
                                     .gatherv = host_gatherv,
                                     .bcast = bcast,
                                     .barrier = do_nothing};

/* ---- counting, device memory: it has no contents, nothing is moved ---- */

static lh_status device_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    (void)comm, (void)send, (void)recv, (void)bytes;
    return LH_OK;
}

static lh_status device_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    (void)comm, (void)send, (void)recv, (void)bytes, (void)at;
    return LH_OK;
}

/* The collectives of lh_comm_open_on that caches use. */
static const lh_comm_ops device_ops = {.name = "counting",
                                       .enqueues = 1,
                                       .close = close_self,
                                       .allreduce = allreduce,
                                       .allgather = device_allgather,
                                       .allgatherv = device_allgatherv,
                                       .flush = do_nothing};

lh_status lh_comm_open_counting(lh_comm **out, const lh_comm_counting *as)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    LH_TRY_DONE(lh_comm_create(&comm));
    comm->ops = as->device_memory ? &device_ops : &host_ops;
    comm->rank = as->rank;
    comm->size = as->size;
    LH_TRY_DONE(lh_realloc(&comm->words, as->size, sizeof *comm->words));
    *out = comm;
    comm = NULL;
done:
    lh_comm_close(comm);
    return st;
}
