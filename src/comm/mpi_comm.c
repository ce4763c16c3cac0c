/* mpi_comm.c - the communicator over MPI: ranks of mpirun or srun, buffers in host memory. MPI counts in int, so long
 * messages are sent in pieces; collectives of ranks on one host use shared memory. Also starts and finalises MPI. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "comm/host_ranks.h"

/* ---- the communicator ---- */

static const int64_t PIECE_BYTES = 1 << 30;
enum { TAG_GATHER = 1, TAG_MESSAGE };

/* A message in flight. */
typedef struct posted {
    MPI_Request request;
    struct posted *next;
    char data[];
} posted;

typedef struct mpi {
    MPI_Comm comm;
    int64_t piece_bytes;
    int *counts, *starts;  /* [size] */
    lh_host_ranks *shared; /* NULL if ranks are on several hosts */
    int as_many_hosts;     /* true to act as if ranks were on several hosts */
    struct mpi *next;      /* the next closed communicator */
} mpi;

/* State shared by the ranks on one host, and memory that is freed at the end. */
typedef struct host {
    MPI_Comm comm;
    MPI_Win window; /* holds the board */
    mpi *closed;    /* list of closed communicators */
    posted *posted; /* list of messages in flight, of all communicators */
} host;

static const lh_comm_ops mpi_ops;

static lh_status check_mpi(lh_comm *comm, int rc)
{
    char what[256] = "a collective", why[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (rc == MPI_SUCCESS) return LH_OK;
    MPI_Error_string(rc, why, &n);
    if (comm->world->watch) lh_watch_describe(comm->world->watch, what, sizeof what);
    LH_FAIL(LH_ECOMM, "%s failed: %s", what, why);
}

static void add_bf16(void *from, void *to, int *count, MPI_Datatype *type)
{
    const uint16_t *x = from;
    uint16_t *y = to;
    (void)type;
    for (int i = 0; i < *count; i++) y[i] = lh_f32_to_bf16(lh_bf16_to_f32(y[i]) + lh_bf16_to_f32(x[i]));
}

/* MPI has no bf16: the sum is an operation of ours, which MPI_Finalize frees. */
static lh_status find_op(lh_comm *comm, lh_dtype type, lh_reduce op, MPI_Op *out)
{
    static const MPI_Op ops[] = {[LH_SUM] = MPI_SUM, [LH_MAX] = MPI_MAX, [LH_MIN] = MPI_MIN};
    static MPI_Op sum_bf16 = MPI_OP_NULL;
    if (type == LH_BF16 && sum_bf16 == MPI_OP_NULL) LH_TRY(check_mpi(comm, MPI_Op_create(add_bf16, 1, &sum_bf16)));
    *out = type == LH_BF16 ? sum_bf16 : ops[op];
    return LH_OK;
}

/* Otherwise collectives go through MPI. */
static int share_memory(const mpi *m)
{
    return m->shared && !m->as_many_hosts;
}

static lh_status allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce reduce)
{
    mpi *m = comm->impl;
    MPI_Op op;
    MPI_Datatype element = type == LH_F32    ? MPI_FLOAT
                           : type == LH_BF16 ? MPI_UINT16_T
                           : type == LH_I32  ? MPI_INT32_T
                                             : MPI_INT64_T;
    int64_t size = lh_dtype_bytes(type), most = m->piece_bytes / size > 0 ? m->piece_bytes / size : 1;
    LH_TRY(find_op(comm, type, reduce, &op));
    if (share_memory(m)) return check_mpi(comm, lh_host_ranks_reduce(m->shared, buf, count * size, element, op));
    for (int64_t i = 0; i < count; i += most) {
        int64_t n = count - i < most ? count - i : most;
        LH_TRY(check_mpi(comm, MPI_Allreduce(MPI_IN_PLACE, (char *)buf + i * size, (int)n, element, op, m->comm)));
    }
    return LH_OK;
}

static lh_status bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    mpi *m = comm->impl;
    if (share_memory(m)) {
        lh_host_ranks_bcast(m->shared, root, buf, bytes);
        return LH_OK;
    }
    for (int64_t i = 0; i < bytes; i += m->piece_bytes) {
        int64_t n = bytes - i < m->piece_bytes ? bytes - i : m->piece_bytes;
        LH_TRY(check_mpi(comm, MPI_Bcast((char *)buf + i, (int)n, MPI_BYTE, root, m->comm)));
    }
    return LH_OK;
}

/* Copies the rank's block into the result first, so that all ranks use MPI_IN_PLACE. */
static void copy_own(const void *send, char *dst, int64_t bytes)
{
    if (bytes && send != dst) memcpy(dst, send, (size_t)bytes);
}

static lh_status allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    mpi *m = comm->impl;
    char *all = recv;
    if (bytes == 0) return LH_OK;
    if (share_memory(m)) {
        lh_host_ranks_allgather(m->shared, send, recv, bytes);
        return LH_OK;
    }
    copy_own(send, all + comm->rank * bytes, bytes);
    if (bytes <= m->piece_bytes / comm->size) {
        LH_TRY(check_mpi(comm, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, (int)bytes, MPI_BYTE, m->comm)));
    } else {
        for (int r = 0; r < comm->size; r++) LH_TRY(bcast(comm, r, all + r * bytes, bytes));
    }
    return LH_OK;
}

/* Returns 1, with MPI's counts and displacements, if all blocks are within one piece. */
static int short_blocks(const lh_comm *comm, const int64_t *bytes, const int64_t *at)
{
    mpi *m = comm->impl;
    for (int r = 0; r < comm->size; r++) {
        if (bytes[r] && (bytes[r] > m->piece_bytes || at[r] > m->piece_bytes - bytes[r])) return 0;
        m->counts[r] = (int)bytes[r];
        m->starts[r] = bytes[r] ? (int)at[r] : 0;
    }
    return 1;
}

/* MPI's displacements are int too: if the result is too long for them every rank broadcasts its block. */
static lh_status allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    mpi *m = comm->impl;
    char *all = recv;
    if (share_memory(m)) {
        lh_host_ranks_gather(m->shared, LH_EVERY_RANK, send, recv, bytes, at);
        return LH_OK;
    }
    copy_own(send, all + at[comm->rank], bytes[comm->rank]);
    if (short_blocks(comm, bytes, at)) {
        LH_TRY(check_mpi(
            comm, MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, m->counts, m->starts, MPI_BYTE, m->comm)));
    } else {
        for (int r = 0; r < comm->size; r++) LH_TRY(bcast(comm, r, all + at[r], bytes[r]));
    }
    return LH_OK;
}

static lh_status gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    mpi *m = comm->impl;
    char *all = recv;
    if (share_memory(m)) {
        lh_host_ranks_gather(m->shared, root, send, recv, bytes, at);
        return LH_OK;
    }
    if (comm->rank != root) {
        const char *block = send;
        for (int64_t i = 0; i < bytes[comm->rank]; i += m->piece_bytes) {
            int64_t n = bytes[comm->rank] - i < m->piece_bytes ? bytes[comm->rank] - i : m->piece_bytes;
            LH_TRY(check_mpi(comm, MPI_Send(block + i, (int)n, MPI_BYTE, root, TAG_GATHER, m->comm)));
        }
        return LH_OK;
    }
    copy_own(send, all + at[root], bytes[root]);
    for (int r = 0; r < comm->size; r++)
        for (int64_t i = 0; r != root && i < bytes[r]; i += m->piece_bytes) {
            int64_t n = bytes[r] - i < m->piece_bytes ? bytes[r] - i : m->piece_bytes;
            LH_TRY(check_mpi(comm,
                             MPI_Recv(all + at[r] + i, (int)n, MPI_BYTE, r, TAG_GATHER, m->comm, MPI_STATUS_IGNORE)));
        }
    return LH_OK;
}

static lh_status barrier(lh_comm *comm)
{
    mpi *m = comm->impl;
    if (!share_memory(m)) return check_mpi(comm, MPI_Barrier(m->comm));
    lh_host_ranks_meet(m->shared);
    return LH_OK;
}

/* ---- messages ---- */

/* Frees the messages that have been sent, and makes progress with the other messages. Returns MPI's code. */
static int sweep_posted(host *h)
{
    int rc = MPI_SUCCESS;
    for (posted **at = &h->posted; *at && rc == MPI_SUCCESS;) {
        posted *p = *at;
        int done = 0;
        rc = MPI_Test(&p->request, &done, MPI_STATUS_IGNORE);
        if (done) {
            *at = p->next;
            lh_free(p);
        } else {
            at = &p->next;
        }
    }
    return rc;
}

/* Of a rank that waits for others on its host (lh_host_work): long messages need its progress. */
static int go_on_sending(void *self)
{
    host *h = ((lh_comm_world *)self)->handle;
    if (!h) return 0; /* the world is being opened */
    sweep_posted(h);
    return h->posted != NULL;
}

static lh_status post(lh_comm *comm, int to, const void *data, int64_t bytes)
{
    mpi *m = comm->impl;
    host *h = comm->world->handle;
    posted *p = NULL;
    LH_TRY(check_mpi(comm, sweep_posted(h)));
    if (bytes > PIECE_BYTES) LH_FAIL(LH_EINTERNAL, "a message of %lld bytes is too long", (long long)bytes);
    LH_TRY(lh_calloc(&p, (int64_t)sizeof *p + bytes, 1));
    memcpy(p->data, data, (size_t)bytes);
    lh_status st = check_mpi(comm, MPI_Isend(p->data, (int)bytes, MPI_BYTE, to, TAG_MESSAGE, m->comm, &p->request));
    if (st != LH_OK) {
        lh_free(p);
        return st;
    }
    p->next = h->posted;
    h->posted = p;
    return LH_OK;
}

static lh_status arrived(lh_comm *comm, int *from, int64_t *bytes)
{
    mpi *m = comm->impl;
    MPI_Status status;
    int there = 0, n = 0;
    *from = -1;
    *bytes = 0;
    LH_TRY(check_mpi(comm, sweep_posted(comm->world->handle)));
    LH_TRY(check_mpi(comm, MPI_Iprobe(MPI_ANY_SOURCE, TAG_MESSAGE, m->comm, &there, &status)));
    if (!there) return LH_OK;
    LH_TRY(check_mpi(comm, MPI_Get_count(&status, MPI_BYTE, &n)));
    *from = status.MPI_SOURCE;
    *bytes = n;
    return LH_OK;
}

static lh_status take(lh_comm *comm, int from, void *out, int64_t bytes)
{
    return check_mpi(
        comm, MPI_Recv(out, (int)bytes, MPI_BYTE, from, TAG_MESSAGE, ((mpi *)comm->impl)->comm, MPI_STATUS_IGNORE));
}

/* Drops messages that were never received. */
static void drop_posted(host *h, int broken)
{
    while (h->posted) {
        posted *p = h->posted;
        int done = 0;
        h->posted = p->next;
        if (!broken) MPI_Test(&p->request, &done, MPI_STATUS_IGNORE);
        if (done) lh_free(p); /* otherwise MPI may still read it, and the run ends */
    }
}

/* Windows and communicators are freed collectively, when the last one of their world is closed: a rank that fails alone
 * closes its communicators before it can report the failure, and would wait here for the other ranks. */
static void close_mpi(lh_comm *comm)
{
    mpi *m = comm->impl, **last;
    host *h = comm->world->handle;
    if (!m) return;
    lh_free(m->counts);
    lh_free(m->starts);
    m->counts = m->starts = NULL;
    if (!h) { /* opening the world failed */
        lh_free(m);
        return;
    }
    for (last = &h->closed; *last; last = &(*last)->next) continue;
    *last = m;
}

/* Frees communicators in the order in which they were closed, which is the same on all ranks. Ranks meet first: MPI
 * polls while it waits. */
static void free_closed(lh_comm_world *world, host *h)
{
    while (h && h->closed) {
        mpi *m = h->closed;
        h->closed = m->next;
        if (!world->broken && m->shared) lh_host_ranks_meet(m->shared);
        if (!world->broken) lh_host_ranks_close(m->shared);
        if (!world->broken) MPI_Comm_free(&m->comm);
        lh_free(m);
    }
}

/* Detaches from the board first: some ranks may have ended after MPI_Finalize while others are still in it. */
static void finish_world(lh_comm_world *world)
{
    host *h = world->handle;
    lh_watch_attach(world->watch, NULL, 0, 0);
    lh_watch_enter(world->watch, "end", -1);
    if (h) drop_posted(h, world->broken);
    free_closed(world, h);
    if (!world->broken) {
        if (h && h->window != MPI_WIN_NULL) MPI_Win_free(&h->window);
        if (h && h->comm != MPI_COMM_NULL) MPI_Comm_free(&h->comm);
        if (world->finalize) MPI_Finalize();
    }
    lh_watch_leave(world->watch);
    lh_free(h);
}

/* Takes ownership of `handle`. `comm` already has its world and table; ranks keep the world's numbering. */
static lh_status adopt_handle(lh_comm *comm, MPI_Comm handle)
{
    mpi *m = NULL;
    MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
    MPI_Comm_rank(handle, &comm->rank);
    MPI_Comm_size(handle, &comm->size);
    LH_TRY(lh_calloc(&m, 1, sizeof *m));
    m->comm = handle;
    m->piece_bytes = PIECE_BYTES;
    comm->impl = m;
    comm->ops = &mpi_ops;
    LH_TRY(lh_calloc(&m->counts, comm->size, sizeof *m->counts));
    LH_TRY(lh_calloc(&m->starts, comm->size, sizeof *m->starts));
    LH_TRY(lh_host_ranks_open(&m->shared, handle, go_on_sending, comm->world));
    return LH_OK;
}

void lh_comm_mpi_set_piece(lh_comm *comm, int64_t piece_bytes)
{
    mpi *m = comm->impl;
    if (comm->ops != &mpi_ops) return;
    m->as_many_hosts = piece_bytes != 0;
    m->piece_bytes = piece_bytes ? piece_bytes : PIECE_BYTES;
}

static lh_status split(lh_comm *comm, int color, lh_comm *child)
{
    mpi *m = comm->impl;
    MPI_Comm part = MPI_COMM_NULL;
    int size;
    LH_TRY(check_mpi(comm, MPI_Comm_split(m->comm, color, comm->rank, &part)));
    MPI_Comm_size(part, &size);
    if (size == 1) { /* a single rank needs no MPI */
        MPI_Comm_free(&part);
        child->ops = &lh_comm_self_ops;
    } else {
        LH_TRY(adopt_handle(child, part));
        lh_comm_mpi_set_piece(child, m->as_many_hosts ? m->piece_bytes : 0);
    }
    return LH_OK;
}

static const lh_comm_ops mpi_ops = {
    .name = "mpi",
    .close = close_mpi,
    .split = split,
    .allreduce = allreduce,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .gatherv = gatherv,
    .bcast = bcast,
    .barrier = barrier,
    .post = post,
    .arrived = arrived,
    .take = take,
};

/* Numbers the ranks of this host and allocates their board, if memory can be shared. */
static lh_status open_board(lh_comm *comm, MPI_Comm world)
{
    lh_board *board = NULL;
    host *h = NULL;
    int count = 0, unit;
    MPI_Aint bytes;
    LH_TRY(lh_calloc(&h, 1, sizeof *h));
    *h = (host){.comm = MPI_COMM_NULL, .window = MPI_WIN_NULL};
    comm->world->handle = h;
    LH_TRY(check_mpi(comm, MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &h->comm)));
    MPI_Comm_rank(h->comm, &comm->local_rank);
    MPI_Comm_size(h->comm, &count);
    comm->local_size = count;
    bytes = comm->local_rank == 0 ? (MPI_Aint)(sizeof *board + (size_t)count * sizeof *board->seats) : 0;
    MPI_Comm_set_errhandler(h->comm, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, h->comm, &board, &h->window) != MPI_SUCCESS) return LH_OK;
    LH_TRY(check_mpi(comm, MPI_Win_shared_query(h->window, 0, &bytes, &unit, &board)));
    if (comm->local_rank == 0) memset(board, 0, (size_t)bytes);
    LH_TRY(check_mpi(comm, MPI_Barrier(h->comm)));
    board->seats[comm->local_rank].rank = comm->rank;
    board->seats[comm->local_rank].pid = (int)getpid();
    LH_TRY(check_mpi(comm, MPI_Barrier(h->comm)));
    lh_watch_attach(comm->world->watch, board, count, comm->local_rank);
    return LH_OK;
}

/* Settings of Open MPI, unless the environment has them already, for jobs on several hosts with several ranks on each.
 * Eager limit: by default messages between processes of a host up to 4 KiB are sent eagerly, longer ones after a
 * handshake. Most all-reduces of decoding are a little longer: by MPI 8 KiB between 2 ranks of a host take 1.7 us with
 * this limit and 4.6 us without. Yield: ranks that wait in MPI yield their core. It costs 0.7 us of such an all-reduce;
 * without it a core that another process also needs delays it by a time slice (4 MiB on a busy machine: 2 ms instead of
 * 7 to 20). */
static void set_mpi_defaults(void)
{
    static const char *const settings[][2] = {{"OMPI_MCA_btl_vader_eager_limit", "32768"},
                                              {"OMPI_MCA_mpi_yield_when_idle", "1"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) setenv(settings[i][0], settings[i][1], 0);
}

static lh_status start_mpi(lh_comm *comm)
{
    int started = 0, finished = 0, level = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (finished) LH_FAIL(LH_ECOMM, "MPI cannot be started twice in one process");
    if (!started) {
        set_mpi_defaults();
        LH_TRY(check_mpi(comm, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level)));
        comm->world->finalize = 1;
        if (level < MPI_THREAD_FUNNELED) LH_FAIL(LH_ECOMM, "this MPI does not support threads (MPI_THREAD_FUNNELED)");
    }
    return LH_OK;
}

/* `of`: NULL for all ranks of the launcher, where this process has the number `rank`. */
static lh_status open_ranks(lh_comm **out, const MPI_Comm *of, int rank, double timeout_s)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    MPI_Comm handle;
    LH_TRY_DONE(lh_comm_create(&comm));
    LH_TRY_DONE(lh_watch_open(&comm->world->watch, timeout_s, rank, comm->host));
    comm->world->finish = finish_world;
    lh_watch_enter(comm->world->watch, "start", -1);
    if (!of) LH_TRY_DONE(start_mpi(comm));
    if (!of) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    LH_TRY_DONE(check_mpi(comm, MPI_Comm_dup(of ? *of : MPI_COMM_WORLD, &handle)));
    LH_TRY_DONE(adopt_handle(comm, handle));
    comm->world_rank = comm->rank;
    LH_TRY_DONE(lh_realloc(&comm->words, comm->size, sizeof *comm->words));
    LH_TRY_DONE(open_board(comm, handle));
    lh_watch_leave(comm->world->watch);
    *out = comm;
    comm = NULL;
done:
    if (comm) comm->world->broken = 1; /* ranks that got further would wait for this one */
    lh_comm_close(comm);
    return st;
}

lh_status lh_comm_open_mpi(lh_comm **out, double timeout_s)
{
    int rank, size;
    lh_comm_launched(&rank, &size);
    return open_ranks(out, NULL, rank, timeout_s);
}

lh_status lh_comm_open_mpi_on(lh_comm **out, const void *ranks, double timeout_s)
{
    const MPI_Comm *of = ranks;
    int started = 0, finished = 0, rank = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (!started || finished) LH_FAIL(LH_ECOMM, "MPI is not running: a communicator needs MPI_Init before it");
    if (*of == MPI_COMM_NULL)
        LH_FAIL(LH_EUSAGE, "the communicator is MPI_COMM_NULL: this rank is not one of its ranks");
    MPI_Comm_rank(*of, &rank);
    return open_ranks(out, of, rank, timeout_s);
}

lh_status lh_comm_open_world(lh_comm **out, double timeout_s)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    int rank, size;
    lh_comm_launched(&rank, &size);
    if (size == 1) return lh_comm_open_self(out);
    if (lh_comm_launched_strangers())
        LH_FAIL_DONE(LH_ECOMM, "srun started %d ranks that cannot find each other: use 'srun --mpi=pmix', or mpirun",
                     size);
    LH_TRY_DONE(lh_comm_open_mpi(&comm, timeout_s));
    if (comm->size != size)
        LH_FAIL_DONE(LH_ECOMM, "the launcher started %d ranks, MPI sees %d: use mpirun, or srun --mpi=pmix", size,
                     comm->size);
    *out = comm;
    comm = NULL;
done:
    lh_comm_close(comm);
    return st;
}
