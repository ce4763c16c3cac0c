/* host_ranks.c - collectives through slots. A message is divided into pieces of at most one slot; ranks copy their
 * pieces to their slots, meet, and copy the pieces of other ranks out. Two sets of slots alternate: before a rank
 * writes to a set again, all ranks have met since they read it. */
#include "comm/host_ranks.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"

enum {
    SLOT_BYTES = 256 << 10, /* two sets of slots of a few ranks stay in the L2 caches */
    WHOLE_BYTES = 8 << 10,  /* up to this size every rank sums all of it: one meeting instead of two */
    LINE = 64,              /* bytes of a cache line; the shares of ranks are aligned to it */
    SPINS = 2000            /* some microseconds, then a waiting rank yields its core */
};
static const double YIELD_S = 200e-6; /* then it sleeps */

/* In shared memory. A rank that arrives adds itself and then looks for sleepers, a rank that falls asleep does the
 * reverse: one of the two sees the other because both numbers are sequentially consistent. */
typedef struct meeting {
    _Atomic uint32_t arrivals; /* of all ranks at all meetings; wraps around */
    _Atomic uint32_t sleepers;
} meeting;
enum { FIRST_ARRIVAL = -1000 }; /* so that it soon wraps around, and not after a day */

struct lh_host_ranks {
    MPI_Comm ranks; /* not owned */
    MPI_Win window;
    meeting *meeting;
    char *slots; /* [2 sets][size][SLOT_BYTES] */
    int rank, size, set;
    uint32_t expected;         /* arrivals, once all ranks are at this one's latest meeting */
    int64_t *lengths, *starts; /* [size], for blocks of equal length */
    lh_host_work *work;
    void *self; /* of `work` */
};

/* ---- waits ---- */

/* Whether no rank is missing once there have been so many arrivals. */
static int is_full(const lh_host_ranks *h, uint32_t arrivals)
{
    return (int32_t)(arrivals - h->expected) >= 0;
}

static int all_are_there(const lh_host_ranks *h)
{
    return is_full(h, atomic_load(&h->meeting->arrivals));
}

/* Sleeps until the last rank arrives, or shorter. The futex is not private: other processes wake it. */
static void sleep_for_a_while(lh_host_ranks *h)
{
    atomic_fetch_add(&h->meeting->sleepers, 1);
    const uint32_t arrivals = atomic_load(&h->meeting->arrivals);
    if (!is_full(h, arrivals)) syscall(SYS_futex, &h->meeting->arrivals, FUTEX_WAIT, arrivals, NULL, NULL, 0);
    atomic_fetch_sub(&h->meeting->sleepers, 1);
}

void lh_host_ranks_meet(lh_host_ranks *h)
{
    h->expected += (uint32_t)h->size;
    if (is_full(h, atomic_fetch_add(&h->meeting->arrivals, 1) + 1)) {
        if (atomic_load(&h->meeting->sleepers))
            syscall(SYS_futex, &h->meeting->arrivals, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    for (int spins = 0; spins < SPINS; spins++)
        if (all_are_there(h)) return;
    for (const double end = lh_clock_s() + YIELD_S; h->work(h->self) || lh_clock_s() < end; sched_yield())
        if (all_are_there(h)) return;
    while (!all_are_there(h)) sleep_for_a_while(h);
}

/* ---- collectives ---- */

static char *slot(const lh_host_ranks *h, int rank)
{
    return h->slots + ((int64_t)h->set * h->size + rank) * SLOT_BYTES;
}

/* out[from .. to) = sum of all slots in that range, in the order of slots; out may be slot 0. */
static int sum_slots(lh_host_ranks *h, char *out, int64_t from, int64_t to, MPI_Datatype type, MPI_Op op)
{
    int bytes, rc = MPI_Type_size(type, &bytes);
    if (to <= from) return rc;
    if (out != slot(h, 0)) memcpy(out + from, slot(h, 0) + from, (size_t)(to - from));
    for (int r = 1; r < h->size && rc == MPI_SUCCESS; r++)
        rc = MPI_Reduce_local(slot(h, r) + from, out + from, (int)((to - from) / bytes), type, op);
    return rc;
}

/* Every rank sums its share of all slots into the first one. */
static int reduce_piece(lh_host_ranks *h, char *buf, int64_t bytes, MPI_Datatype type, MPI_Op op)
{
    int64_t lines = (bytes + LINE - 1) / LINE, from = lines * h->rank / h->size * LINE,
            to = lines * (h->rank + 1) / h->size * LINE;
    int rc;
    h->set = !h->set;
    memcpy(slot(h, h->rank), buf, (size_t)bytes);
    lh_host_ranks_meet(h);
    if (bytes <= WHOLE_BYTES) return sum_slots(h, buf, 0, bytes, type, op);
    rc = sum_slots(h, slot(h, 0), from, lh_min_i64(to, bytes), type, op);
    lh_host_ranks_meet(h);
    memcpy(buf, slot(h, 0), (size_t)bytes);
    return rc;
}

int lh_host_ranks_reduce(lh_host_ranks *h, void *buf, int64_t bytes, MPI_Datatype type, MPI_Op op)
{
    int rc = MPI_SUCCESS;
    for (int64_t i = 0; i < bytes && rc == MPI_SUCCESS; i += SLOT_BYTES)
        rc = reduce_piece(h, (char *)buf + i, lh_min_i64(bytes - i, SLOT_BYTES), type, op);
    return rc;
}

void lh_host_ranks_bcast(lh_host_ranks *h, int root, void *buf, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += SLOT_BYTES) {
        const size_t n = (size_t)lh_min_i64(bytes - i, SLOT_BYTES);
        h->set = !h->set;
        if (h->rank == root) memcpy(slot(h, root), (char *)buf + i, n);
        lh_host_ranks_meet(h);
        if (h->rank != root) memcpy((char *)buf + i, slot(h, root), n);
    }
}

void lh_host_ranks_gather(lh_host_ranks *h, int root, const void *own, void *all, const int64_t *bytes,
                          const int64_t *at)
{
    int64_t longest = 0;
    for (int r = 0; r < h->size; r++) longest = lh_max_i64(longest, bytes[r]);
    for (int64_t i = 0; i < longest; i += SLOT_BYTES) {
        const int64_t n = lh_min_i64(bytes[h->rank] - i, SLOT_BYTES);
        h->set = !h->set;
        if (n > 0) memcpy(slot(h, h->rank), (const char *)own + i, (size_t)n);
        lh_host_ranks_meet(h);
        for (int r = 0; r < h->size && (root == LH_EVERY_RANK || root == h->rank); r++)
            if (bytes[r] > i) memcpy((char *)all + at[r] + i, slot(h, r), (size_t)lh_min_i64(bytes[r] - i, SLOT_BYTES));
    }
}

void lh_host_ranks_allgather(lh_host_ranks *h, const void *own, void *all, int64_t bytes)
{
    for (int r = 0; r < h->size; r++) h->lengths[r] = bytes, h->starts[r] = r * bytes;
    lh_host_ranks_gather(h, LH_EVERY_RANK, own, all, h->lengths, h->starts);
}

/* ---- opening ---- */

/* 1 if `own` is 1 on every rank. */
static int all_of(MPI_Comm ranks, int own)
{
    int all = 0;
    return MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, ranks) == MPI_SUCCESS && all;
}

static int are_on_one_host(MPI_Comm ranks)
{
    MPI_Comm near = MPI_COMM_NULL;
    int size = 0, near_size = 0;
    MPI_Comm_size(ranks, &size);
    if (MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) != MPI_SUCCESS) return 0;
    MPI_Comm_size(near, &near_size);
    MPI_Comm_free(&near);
    return size == near_size;
}

/* Returns 1 if the shared window was allocated and can be used. */
static int share_slots(lh_host_ranks *h)
{
    MPI_Aint bytes = h->rank == 0 ? LINE + (MPI_Aint)2 * h->size * SLOT_BYTES : 0;
    char *start = NULL;
    int unit;
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, h->ranks, &start, &h->window) != MPI_SUCCESS) return 0;
    if (MPI_Win_shared_query(h->window, 0, &bytes, &unit, &start) != MPI_SUCCESS) return 0;
    h->meeting = (void *)start;
    h->slots = start + LINE;
    h->expected = (uint32_t)FIRST_ARRIVAL;
    if (h->rank == 0) *h->meeting = (meeting){.arrivals = h->expected};
    return 1;
}

/* The memory of this rank; *out is closed by the caller, also after a failure. */
static lh_status open_alone(lh_host_ranks **out, MPI_Comm ranks)
{
    lh_host_ranks *h = NULL;
    LH_TRY(lh_calloc(&h, 1, sizeof *h));
    *h = (lh_host_ranks){.ranks = ranks, .window = MPI_WIN_NULL};
    *out = h;
    MPI_Comm_rank(ranks, &h->rank);
    MPI_Comm_size(ranks, &h->size);
    LH_TRY(lh_calloc(&h->lengths, h->size, sizeof *h->lengths));
    return lh_calloc(&h->starts, h->size, sizeof *h->starts);
}

lh_status lh_host_ranks_open(lh_host_ranks **out, MPI_Comm ranks, lh_host_work *work, void *self)
{
    lh_status st = LH_OK;
    lh_host_ranks *h = NULL;
    *out = NULL;
    if (!all_of(ranks, are_on_one_host(ranks))) return LH_OK;
    st = open_alone(&h, ranks);
    if (!all_of(ranks, st == LH_OK)) goto done;
    if (!all_of(ranks, share_slots(h))) goto done;
    h->work = work;
    h->self = self;
    *out = h;
    return LH_OK;
done:
    lh_host_ranks_close(h);
    return st;
}

void lh_host_ranks_close(lh_host_ranks *h)
{
    if (!h) return;
    if (h->window != MPI_WIN_NULL) MPI_Win_free(&h->window);
    lh_free(h->lengths);
    lh_free(h->starts);
    lh_free(h);
}
