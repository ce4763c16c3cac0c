#include "comm/faulty_comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm_impl.h"

/* Shared by a faulty communicator and what was split off it. */
typedef struct plan {
    int refs;
    int64_t at, calls; /* misbehaves when calls == at; at 0: never, on this rank */
    double seconds;
    lh_status (*act)(lh_comm *comm, const struct plan *plan);
} plan;

typedef struct faulty {
    lh_comm *inner;
    int owns_inner;
    plan *plan;
} faulty;

/* A rank that hangs somewhere else: it waits for nobody, so its own watchdog says nothing. */
static lh_status drop(lh_comm *comm, const plan *p)
{
    (void)p;
    lh_watch_leave(comm->world->watch);
    while (pause() != 0) continue; /* it never returns 0 */
    return LH_OK;
}

/* A process that is stopped from outside in the middle of a collective. */
static lh_status stop(lh_comm *comm, const plan *p)
{
    (void)comm, (void)p;
    raise(SIGSTOP);
    return LH_OK;
}

static lh_status delay(lh_comm *comm, const plan *p)
{
    struct timespec left = {.tv_sec = (time_t)p->seconds};
    (void)comm;
    left.tv_nsec = (long)((p->seconds - (double)left.tv_sec) * 1e9);
    nanosleep(&left, NULL);
    return LH_OK;
}

static lh_status kill_rank(lh_comm *comm, const plan *p)
{
    (void)comm, (void)p;
    _exit(42);
}

static lh_status fail(lh_comm *comm, const plan *p)
{
    (void)comm;
    return lh_fail(LH_ECOMM, __FILE__, __LINE__, "collective %lld fails, as it was told", (long long)p->at);
}

static const struct {
    const char *name;
    lh_status (*act)(lh_comm *comm, const plan *plan);
    int timed;
} faults[] = {{"drop", drop, 0}, {"stop", stop, 0}, {"delay", delay, 1}, {"kill", kill_rank, 0}, {"fail", fail, 0}};

static lh_status parse(plan *p, const char *text)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults && !p->act; i++) {
        size_t n = strlen(faults[i].name);
        char *end;
        if (strncmp(text, faults[i].name, n) != 0 || text[n] != ':') continue;
        p->at = strtoll(text + n + 1, &end, 10);
        if (faults[i].timed && *end == ':') p->seconds = strtod(end + 1, &end);
        if (*end || p->at < 1 || (faults[i].timed && !(p->seconds > 0 && p->seconds < 1e6))) break;
        p->act = faults[i].act;
    }
    if (!p->act)
        LH_FAIL(LH_EUSAGE, "'%s' is no plan of a fault: use drop:N, stop:N, delay:N:SECONDS, kill:N or fail:N, N from 1", text);
    return LH_OK;
}

/* Counts a collective; the inner communicator when this rank is to take part. */
static lh_status inner_of(lh_comm *comm, lh_comm **inner)
{
    faulty *f = comm->impl;
    *inner = f->inner;
    return ++f->plan->calls == f->plan->at ? f->plan->act(comm, f->plan) : LH_OK;
}

static void close_faulty(lh_comm *comm)
{
    faulty *f = comm->impl;
    if (!f) return;
    if (--f->plan->refs == 0) lh_free(f->plan);
    if (f->owns_inner) lh_comm_close(f->inner);
    lh_free(f);
}

/* Fills `comm`, which has nothing but its world, from `inner`. */
static lh_status wrap(lh_comm *comm, lh_comm *inner, plan *p)
{
    faulty *f = NULL;
    LH_TRY(lh_calloc(&f, 1, sizeof *f));
    f->inner = inner;
    f->plan = p;
    p->refs++;
    comm->impl = f;
    comm->rank = inner->rank;
    comm->size = inner->size;
    comm->local_rank = inner->local_rank;
    comm->local_size = inner->local_size;
    comm->world_rank = inner->world_rank;
    memcpy(comm->host, inner->host, sizeof comm->host);
    return LH_OK;
}

static const lh_comm_ops faulty_ops;

static lh_status split(lh_comm *comm, int color, lh_comm *child)
{
    lh_status st = LH_OK;
    lh_comm *inner, *part = NULL;
    faulty *f = comm->impl;
    LH_TRY_DONE(inner_of(comm, &inner));
    LH_TRY_DONE(lh_comm_split(inner, color, &part));
    LH_TRY_DONE(wrap(child, part, f->plan));
    child->ops = &faulty_ops;
    ((faulty *)child->impl)->owns_inner = 1;
    part = NULL;
done:
    lh_comm_close(part);
    return st;
}

static lh_status allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->allreduce(inner, buf, count, type, op));
    return LH_OK;
}

static lh_status allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->allgather(inner, send, recv, bytes));
    return LH_OK;
}

static lh_status allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->allgatherv(inner, send, recv, bytes, at));
    return LH_OK;
}

static lh_status gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->gatherv(inner, root, send, recv, bytes, at));
    return LH_OK;
}

static lh_status bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->bcast(inner, root, buf, bytes));
    return LH_OK;
}

static lh_status barrier(lh_comm *comm)
{
    lh_comm *inner;
    LH_TRY(inner_of(comm, &inner));
    LH_TRY(inner->ops->barrier(inner));
    return LH_OK;
}

static const lh_comm_ops faulty_ops = {
    .name = "faulty",
    .close = close_faulty,
    .split = split,
    .allreduce = allreduce,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .gatherv = gatherv,
    .bcast = bcast,
    .barrier = barrier,
};

lh_status faulty_comm_open(lh_comm **out, lh_comm *inner, int rank, const char *text)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    plan *p = NULL;
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    LH_TRY_DONE(parse(p, text));
    if (rank != inner->rank) p->at = 0;
    LH_TRY_DONE(lh_calloc(&comm, 1, sizeof *comm));
    comm->world = inner->world;
    comm->world->refs++;
    LH_TRY_DONE(lh_calloc(&comm->words, inner->size, sizeof *comm->words));
    LH_TRY_DONE(wrap(comm, inner, p));
    comm->ops = &faulty_ops;
    *out = comm;
    comm = NULL;
    p = NULL;
done:
    lh_comm_close(comm);
    if (p && p->refs == 0) lh_free(p);
    return st;
}
