/* All-reduce through shared memory. A message goes in pieces of one slot each; every rank copies its piece to its slot,
 * adds up its share of all slots, and copies the whole result out. There are two sets of slots, used in turn: who
 * writes to a set again has met every other rank since they read it. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "comm/host_reduce.h"

enum {
    SLOT_BYTES = 256 << 10, /* two sets of slots of a few ranks stay in the second-level caches */
    WHOLE_BYTES = 8 << 10,  /* up to here every rank adds up all of it: one meeting instead of two */
    LINE = 64,              /* bytes; shares of ranks begin at lines */
    SPINS = 2000            /* some microseconds, then whoever waits gives the core away */
};

struct lh_host_reduce {
    MPI_Comm ranks; /* not owned */
    MPI_Win window;
    _Atomic uint64_t *arrivals; /* shared: of all ranks at all meetings */
    char *slots;                /* shared: [2 sets][size][SLOT_BYTES] */
    int rank, size, set;
    uint64_t meetings;
};

/* Returns when every rank has come. */
static void meet(lh_host_reduce *h)
{
    uint64_t all = ++h->meetings * (uint64_t)h->size;
    atomic_fetch_add(h->arrivals, 1);
    for (int spins = 0; atomic_load_explicit(h->arrivals, memory_order_acquire) < all; spins++)
        if (spins > SPINS) sched_yield();
}

static char *slot(const lh_host_reduce *h, int rank)
{
    return h->slots + ((int64_t)h->set * h->size + rank) * SLOT_BYTES;
}

/* out[from .. to) = the sum of all slots there, from slot 0 on; out may be slot 0. */
static int add_up(lh_host_reduce *h, char *out, int64_t from, int64_t to, MPI_Datatype type, MPI_Op op)
{
    int bytes, rc = MPI_Type_size(type, &bytes);
    if (to <= from) return rc;
    if (out != slot(h, 0)) memcpy(out + from, slot(h, 0) + from, (size_t)(to - from));
    for (int r = 1; r < h->size && rc == MPI_SUCCESS; r++)
        rc = MPI_Reduce_local(slot(h, r) + from, out + from, (int)((to - from) / bytes), type, op);
    return rc;
}

/* One piece of at most a slot. */
static int reduce_piece(lh_host_reduce *h, char *buf, int64_t bytes, MPI_Datatype type, MPI_Op op)
{
    int64_t lines = (bytes + LINE - 1) / LINE, from = lines * h->rank / h->size * LINE,
            to = lines * (h->rank + 1) / h->size * LINE;
    int rc;
    h->set = !h->set;
    memcpy(slot(h, h->rank), buf, (size_t)bytes);
    meet(h);
    if (bytes <= WHOLE_BYTES) return add_up(h, buf, 0, bytes, type, op);
    rc = add_up(h, slot(h, 0), from, to < bytes ? to : bytes, type, op);
    meet(h);
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

/* 1 on every rank or on none. */
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

/* 1 when the window is there and all of it can be used. */
static int share(lh_host_reduce *h)
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
    if (!all_of(ranks, share(h))) goto done;
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
