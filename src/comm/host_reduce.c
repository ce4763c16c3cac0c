/* host_reduce.c - all-reduce through shared memory. A message is divided into pieces of at most one slot; every rank
 * copies its piece to its slot, sums its share of all slots, and copies the whole result out. Two sets of slots are
 * used in turn: before a rank writes to a set again, all ranks have passed a barrier since they read it. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "comm/host_reduce.h"

enum {
    SLOT_BYTES = 256 << 10, /* two sets of slots of a few ranks stay in the second-level caches */
    WHOLE_BYTES = 8 << 10,  /* up to this size every rank sums all of it: one barrier instead of two */
    LINE = 64,              /* bytes; shares of ranks begin at lines */
    SPINS = 2000            /* some microseconds, then a waiting rank yields its core */
};

struct lh_host_reduce {
    MPI_Comm ranks; /* not owned */
    MPI_Win window;
    _Atomic uint64_t *arrivals; /* shared: arrivals of all ranks at all barriers */
    char *slots;                /* shared: [2 sets][size][SLOT_BYTES] */
    int rank, size, set;
    uint64_t barriers;
};

/* Waits until every rank has arrived. */
static void wait_for_all(lh_host_reduce *h)
{
    uint64_t all = ++h->barriers * (uint64_t)h->size;
    atomic_fetch_add(h->arrivals, 1);
    for (int spins = 0; atomic_load_explicit(h->arrivals, memory_order_acquire) < all; spins++)
        if (spins > SPINS) sched_yield();
}

static char *slot(const lh_host_reduce *h, int rank)
{
    return h->slots + ((int64_t)h->set * h->size + rank) * SLOT_BYTES;
}

/* out[from .. to) = sum of all slots in that range, in the order of slots; out may be slot 0. */
static int sum_slots(lh_host_reduce *h, char *out, int64_t from, int64_t to, MPI_Datatype type, MPI_Op op)
{
    int bytes, rc = MPI_Type_size(type, &bytes);
    if (to <= from) return rc;
    if (out != slot(h, 0)) memcpy(out + from, slot(h, 0) + from, (size_t)(to - from));
    for (int r = 1; r < h->size && rc == MPI_SUCCESS; r++)
        rc = MPI_Reduce_local(slot(h, r) + from, out + from, (int)((to - from) / bytes), type, op);
    return rc;
}

/* Reduces one piece of at most a slot. */
static int reduce_piece(lh_host_reduce *h, char *buf, int64_t bytes, MPI_Datatype type, MPI_Op op)
{
    int64_t lines = (bytes + LINE - 1) / LINE, from = lines * h->rank / h->size * LINE,
            to = lines * (h->rank + 1) / h->size * LINE;
    int rc;
    h->set = !h->set;
    memcpy(slot(h, h->rank), buf, (size_t)bytes);
    wait_for_all(h);
    if (bytes <= WHOLE_BYTES) return sum_slots(h, buf, 0, bytes, type, op);
    rc = sum_slots(h, slot(h, 0), from, to < bytes ? to : bytes, type, op);
    wait_for_all(h);
    memcpy(buf, slot(h, 0), (size_t)bytes);
    return rc;
}

int lh_host_reduce_all(lh_host_reduce *h, void *buf, int64_t bytes, MPI_Datatype type, MPI_Op op)
{
    int rc = MPI_SUCCESS;
    for (int64_t i = 0; i < bytes && rc == MPI_SUCCESS; i += SLOT_BYTES)
        rc = reduce_piece(h, (char *)buf + i, bytes - i < SLOT_BYTES ? bytes - i : SLOT_BYTES, type, op);
    return rc;
}

/* 1 if `own` is 1 on every rank. */
static int all_of(MPI_Comm ranks, int own)
{
    int all = 0;
    return MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, ranks) == MPI_SUCCESS && all;
}

static int on_one_host(MPI_Comm ranks)
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
static int share_slots(lh_host_reduce *h)
{
    MPI_Aint bytes = h->rank == 0 ? LINE + (MPI_Aint)2 * h->size * SLOT_BYTES : 0;
    char *start = NULL;
    int unit;
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, h->ranks, &start, &h->window) != MPI_SUCCESS) return 0;
    if (MPI_Win_shared_query(h->window, 0, &bytes, &unit, &start) != MPI_SUCCESS) return 0;
    h->arrivals = (void *)start;
    h->slots = start + LINE;
    if (h->rank == 0) atomic_store(h->arrivals, 0);
    return 1;
}

lh_status lh_host_reduce_open(lh_host_reduce **out, MPI_Comm ranks)
{
    lh_status st = LH_OK;
    lh_host_reduce *h = NULL;
    *out = NULL;
    if (!all_of(ranks, on_one_host(ranks))) return LH_OK;
    st = lh_calloc(&h, 1, sizeof *h);
    if (!all_of(ranks, st == LH_OK)) goto done;
    *h = (lh_host_reduce){.ranks = ranks, .window = MPI_WIN_NULL};
    MPI_Comm_rank(ranks, &h->rank);
    MPI_Comm_size(ranks, &h->size);
    if (!all_of(ranks, share_slots(h))) goto done;
    *out = h;
    return LH_OK;
done:
    lh_host_reduce_close(h);
    return st;
}

void lh_host_reduce_close(lh_host_reduce *h)
{
    if (!h) return;
    if (h->window != MPI_WIN_NULL) MPI_Win_free(&h->window);
    lh_free(h);
}
