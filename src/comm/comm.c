/* comm.c - what all communicators share above their implementations (comm_impl.h): argument checks, counting of bytes,
 * the watchdog, agreements, and leaving without a collective. */
#include "comm/comm.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "comm/comm_impl.h"

/* What lh_comm_agree broadcasts of a failure. */
typedef struct verdict {
    char host[LH_HOST_BYTES];
    char message[2048];
} verdict;

lh_status lh_comm_create(lh_comm **out)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    LH_TRY_DONE(lh_calloc(&comm, 1, sizeof *comm));
    LH_TRY_DONE(lh_calloc(&comm->words, 1, sizeof *comm->words));
    LH_TRY_DONE(lh_calloc(&comm->world, 1, sizeof *comm->world));
    comm->world->refs = 1;
    comm->size = comm->local_size = 1;
    if (gethostname(comm->host, LH_HOST_BYTES - 1) != 0) snprintf(comm->host, LH_HOST_BYTES, "unknown host");
    comm->host[LH_HOST_BYTES - 1] = '\0';
    *out = comm;
    comm = NULL;
done:
    if (comm) lh_free(comm->words);
    lh_free(comm);
    return st;
}

void lh_comm_close(lh_comm *comm)
{
    if (!comm) return;
    comm->world->refs--;
    if (comm->ops) comm->ops->close(comm);
    if (comm->world->refs == 0) {
        if (comm->world->finish) comm->world->finish(comm->world);
        lh_watch_close(comm->world->watch);
        lh_free(comm->world);
    }
    lh_free(comm->words);
    lh_free(comm);
}

int lh_comm_rank(const lh_comm *comm)
{
    return comm->rank;
}

int lh_comm_size(const lh_comm *comm)
{
    return comm->size;
}

int lh_comm_local_rank(const lh_comm *comm)
{
    return comm->local_rank;
}

int lh_comm_local_size(const lh_comm *comm)
{
    return comm->local_size;
}

const char *lh_comm_name(const lh_comm *comm)
{
    return comm->ops->name;
}

const char *lh_comm_host(const lh_comm *comm)
{
    return comm->host;
}

int64_t lh_comm_sent_bytes(const lh_comm *comm)
{
    return comm->sent_bytes;
}

void lh_comm_step(lh_comm *comm, const char *step, int64_t number)
{
    lh_watch_step(comm->world->watch, step, number);
}

/* Begins a collective; LH_ECOMM if one has failed before. */
static lh_status begin_collective(lh_comm *comm, const char *operation, int64_t bytes)
{
    if (comm->world->broken) LH_FAIL(LH_ECOMM, "no %s is possible: an earlier collective failed", operation);
    comm->world->agreed = 0;
    lh_watch_enter(comm->world->watch, operation, bytes);
    return LH_OK;
}

static lh_status end_collective(lh_comm *comm, lh_status st, int64_t sent_bytes)
{
    lh_watch_leave(comm->world->watch);
    if (st == LH_ECOMM) comm->world->broken = 1;
    if (comm->size > 1) comm->sent_bytes += sent_bytes;
    return st;
}

lh_status lh_comm_split(lh_comm *comm, int color, lh_comm **out)
{
    lh_status st = LH_OK;
    lh_comm *child = NULL;
    assert(color >= 0);
    LH_TRY_DONE(begin_collective(comm, "split", -1));
    LH_TRY_DONE(lh_calloc(&child, 1, sizeof *child));
    *child = (lh_comm){.world = comm->world, .size = 1, .local_rank = comm->local_rank};
    child->local_size = comm->local_size;
    child->world_rank = comm->world_rank;
    comm->world->refs++;
    memcpy(child->host, comm->host, sizeof child->host);
    LH_TRY_DONE(lh_calloc(&child->words, comm->size, sizeof *child->words));
    LH_TRY_DONE(comm->ops->split(comm, color, child));
    *out = child;
    child = NULL;
done:
    lh_comm_close(child);
    return end_collective(comm, st, 0);
}

typedef lh_status (*allreduce_op)(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);

static lh_status reduce_by(lh_comm *comm, allreduce_op reduce, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    lh_status st = LH_OK;
    int64_t bytes = count * lh_dtype_bytes(type);
    assert(count >= 0 && (type == LH_F32 || type == LH_I32 || type == LH_I64 || (type == LH_BF16 && op == LH_SUM)));
    LH_TRY(begin_collective(comm, "all-reduce", bytes));
    st = end_collective(comm, reduce(comm, buf, count, type, op), bytes);
    return st;
}

lh_status lh_comm_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    return reduce_by(comm, comm->ops->allreduce, buf, count, type, op);
}

lh_status lh_comm_allreduce_async(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    const lh_comm_ops *ops = comm->ops;
    return reduce_by(comm, ops->allreduce_async ? ops->allreduce_async : ops->allreduce, buf, count, type, op);
}

lh_status lh_comm_wait(lh_comm *comm)
{
    return comm->ops->wait ? comm->ops->wait(comm) : LH_OK;
}

static lh_status gather(lh_comm *comm, const char *operation, const void *send, void *recv, int64_t bytes)
{
    lh_status st = LH_OK;
    LH_TRY(begin_collective(comm, operation, bytes));
    st = end_collective(comm, comm->ops->allgather(comm, send, recv, bytes), bytes);
    return st;
}

lh_status lh_comm_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    assert(bytes >= 0);
    return gather(comm, "all-gather", send, recv, bytes);
}

lh_status lh_comm_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    lh_status st = LH_OK;
    LH_TRY(begin_collective(comm, "all-gather", bytes[comm->rank]));
    st = end_collective(comm, comm->ops->allgatherv(comm, send, recv, bytes, at), bytes[comm->rank]);
    return st;
}

lh_status lh_comm_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                          const int64_t *at)
{
    lh_status st = LH_OK;
    assert(root >= 0 && root < comm->size);
    LH_TRY(begin_collective(comm, "gather", bytes[comm->rank]));
    st = end_collective(comm, comm->ops->gatherv(comm, root, send, recv, bytes, at),
                        comm->rank == root ? 0 : bytes[comm->rank]);
    return st;
}

static lh_status broadcast(lh_comm *comm, const char *operation, int root, void *buf, int64_t bytes)
{
    lh_status st = LH_OK;
    LH_TRY(begin_collective(comm, operation, bytes));
    st = end_collective(comm, comm->ops->bcast(comm, root, buf, bytes), comm->rank == root ? bytes : 0);
    return st;
}

lh_status lh_comm_bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    assert(bytes >= 0 && root >= 0 && root < comm->size);
    return broadcast(comm, "broadcast", root, buf, bytes);
}

lh_status lh_comm_barrier(lh_comm *comm)
{
    lh_status st = LH_OK;
    LH_TRY(begin_collective(comm, "barrier", -1));
    st = end_collective(comm, comm->ops->barrier(comm), 0);
    return st;
}

static lh_status check_messages(const lh_comm *comm)
{
    if (!comm->ops->post) LH_FAIL(LH_EINTERNAL, "the communicator '%s' sends no messages", comm->ops->name);
    if (comm->world->broken) LH_FAIL(LH_ECOMM, "communication has failed before");
    return LH_OK;
}

static lh_status end_message(lh_comm *comm, lh_status st)
{
    if (st == LH_ECOMM) comm->world->broken = 1;
    return st;
}

lh_status lh_comm_post(lh_comm *comm, int to, const void *data, int64_t bytes)
{
    LH_TRY(check_messages(comm));
    return end_message(comm, comm->ops->post(comm, to, data, bytes));
}

lh_status lh_comm_arrived(lh_comm *comm, int *from, int64_t *bytes)
{
    LH_TRY(check_messages(comm));
    return end_message(comm, comm->ops->arrived(comm, from, bytes));
}

lh_status lh_comm_take(lh_comm *comm, int from, void *out, int64_t bytes)
{
    LH_TRY(check_messages(comm));
    lh_watch_enter(comm->world->watch, "message", bytes);
    lh_status st = comm->ops->take(comm, from, out, bytes);
    lh_watch_leave(comm->world->watch);
    return end_message(comm, st);
}

void lh_comm_pause(lh_comm *comm, int64_t us)
{
    lh_watch_set_untimed(comm->world->watch, 1);
    lh_watch_enter(comm->world->watch, "wait for a message", -1);
    usleep((useconds_t)us);
    lh_watch_leave(comm->world->watch);
    lh_watch_set_untimed(comm->world->watch, 0);
}

double lh_comm_timeout(const lh_comm *comm)
{
    return lh_watch_timeout(comm->world->watch);
}

double lh_comm_clock(const lh_comm *comm)
{
    return lh_watch_clock(comm->world->watch);
}

void lh_comm_check_heartbeat(lh_comm *comm, double heard_s, const char *peer, const char *what)
{
    lh_watch_check_heartbeat(comm->world->watch, heard_s, peer, what);
}

lh_status lh_comm_flush(lh_comm *comm)
{
    return comm->ops->flush(comm);
}

int lh_comm_enqueues(const lh_comm *comm)
{
    return comm->ops->enqueues;
}

lh_status lh_comm_again(lh_comm *comm, int64_t bytes)
{
    lh_status st = LH_OK;
    LH_TRY(begin_collective(comm, "recorded work", bytes));
    st = end_collective(comm, LH_OK, bytes);
    return st;
}

/* Flag that lh_comm_agree_any adds to a rank's status. */
enum { ANY = 1 << 16 };

lh_status lh_comm_agree_any(lh_comm *comm, lh_status mine, int *any)
{
    lh_status st = LH_OK;
    verdict why = {0};
    int32_t own = (int32_t)mine | (*any ? ANY : 0), *all = (int32_t *)(void *)comm->words;
    int first = 0, found = 0;
    if (mine != LH_OK && comm->world->broken) return mine;
    /* Copied first: a call below can overwrite the message. */
    if (mine != LH_OK) snprintf(why.message, sizeof why.message, "%s", lh_error_message());
    LH_TRY(gather(comm, "agreement", &own, all, sizeof own));
    for (int r = 0; r < comm->size; r++) found |= (all[r] & ANY) != 0;
    while (first < comm->size && (all[first] & ~ANY) == LH_OK) first++;
    if (first == comm->size) {
        *any = found;
        return LH_OK;
    }
    st = (lh_status)(all[first] & ~ANY);
    int sender = comm->rank == first;
    why.host[0] = '\0';
    if (sender) snprintf(why.host, sizeof why.host, "%d on %.40s", comm->world_rank, comm->host);
    lh_status sent = broadcast(comm, "agreement", first, &why, sizeof why);
    if (sent != LH_OK) LH_TRY(sent);
    comm->world->agreed = 1;
    if (!sender) LH_FAIL(st, "rank %s: %s", why.host, why.message);
    lh_fail_trace(st, __FILE__, __LINE__);
    return st;
}

lh_status lh_comm_agree(lh_comm *comm, lh_status mine)
{
    return lh_comm_agree_any(comm, mine, &(int){0});
}

lh_status lh_comm_agree_untimed(lh_comm *comm, lh_status mine)
{
    lh_watch_set_untimed(comm->world->watch, 1);
    lh_status st = lh_comm_agree(comm, mine);
    lh_watch_set_untimed(comm->world->watch, 0);
    return st;
}

int lh_comm_agreed(const lh_comm *comm)
{
    return comm->world->agreed;
}

lh_status lh_comm_same(lh_comm *comm, const void *data, int64_t bytes, const char *what)
{
    XXH128_hash_t hash = XXH3_128bits(data, (size_t)bytes);
    lh_comm_word own = {.bytes = bytes, .hash = {hash.low64, hash.high64}};
    const lh_comm_word *all = comm->words;
    memcpy(own.host, comm->host, sizeof own.host);
    LH_TRY(gather(comm, "comparison", &own, comm->words, sizeof own));
    for (int r = 1; r < comm->size; r++) {
        if (all[r].bytes == all[0].bytes && memcmp(all[r].hash, all[0].hash, sizeof all[0].hash) == 0) continue;
        comm->world->agreed = 1;
        LH_FAIL(LH_EUSAGE, "%s of rank %d on %s differ from those of rank 0 on %s: they must be the same on all ranks",
                what, r, all[r].host, all[0].host);
    }
    return LH_OK;
}

void lh_comm_leave(lh_comm *comm, int code)
{
    lh_watch *watch = comm->world->watch;
    fflush(NULL);
    if (watch) lh_watch_claim_report(watch); /* the watchdogs need not report that this rank has ended */
    if (watch && comm->world_rank != 0 && code == LH_EINTERRUPTED) {
        signal(SIGTERM, SIG_DFL);
        for (int i = 0; i < 500 && lh_watch_alive(watch, 0) != 0; i++)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    _exit(code);
}
