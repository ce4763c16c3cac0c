#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_impl.h"

/* How often the thread looks, how long a wait is before a missing peer is reported, and how far apart ranks speak.
 * mpirun sends SIGTERM 1 s after a rank has failed and SIGKILL 1 s later, so a rank's turn comes after that. */
static const double LOOK_S = 0.2, MISSING_S = 0.5, TURN_S = 3;
enum { MAX_TURNS = 4 };

typedef struct peer {
    int rank, pid;
} peer;

struct lh_watch {
    double timeout_s;
    int rank;
    char host[LH_HOST_BYTES];
    peer *peers;
    int peer_count;

    /* Written by the main thread, read by the watching one. */
    _Atomic int64_t since_ns; /* 0: waits for nobody */
    _Atomic int64_t waits;    /* how often it has begun to wait */
    _Atomic(const char *) operation, step;
    _Atomic int64_t bytes, number;

    int threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* of stop and of the peers */
    pthread_cond_t wake;
    int stop;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void lh_watch_describe(const lh_watch *watch, char *out, int64_t cap_bytes)
{
    const char *step = watch->step;
    char size[32] = "", number[32] = "";
    if (watch->bytes >= 0) snprintf(size, sizeof size, " of %lld bytes", (long long)watch->bytes);
    if (watch->number >= 0) snprintf(number, sizeof number, " %lld", (long long)watch->number);
    if (step)
        snprintf(out, (size_t)cap_bytes, "%s%s in '%s%s'", watch->operation, size, step, number);
    else
        snprintf(out, (size_t)cap_bytes, "%s%s before the first step", watch->operation, size);
}

static int gone(int pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* The first peer on this host that has ended, or NULL. */
static const peer *find_gone(const lh_watch *watch)
{
    for (int i = 0; i < watch->peer_count; i++)
        if (gone(watch->peers[i].pid)) return &watch->peers[i];
    return NULL;
}

/* Called now and then with the lock held. Does not return when the wait is a hopeless one. */
static void look(lh_watch *watch)
{
    char what[256];
    int64_t waits = watch->waits, since = watch->since_ns;
    if (!since) return;
    double waited_s = (double)(now_ns() - since) * 1e-9;
    double turn_s = TURN_S * (watch->rank < MAX_TURNS ? watch->rank : MAX_TURNS);
    const peer *missing = waited_s > MISSING_S + turn_s ? find_gone(watch) : NULL;
    if (!missing && waited_s < watch->timeout_s + turn_s) return;
    if (watch->waits != waits || watch->since_ns != since) return; /* it came after all */
    lh_watch_describe(watch, what, sizeof what);
    if (missing)
        lh_log(LH_LOG_ERROR, 1, "rank %d (process %d on %s) has ended while rank %d waited for it in %s", missing->rank,
               missing->pid, watch->host, watch->rank, what);
    else
        lh_log(LH_LOG_ERROR, 1,
               "rank %d on %s has waited %.0f s in %s: a peer does not take part (--comm-timeout sets the time)",
               watch->rank, watch->host, waited_s, what);
    _exit(LH_ECOMM);
}

static void *watch_thread(void *arg)
{
    lh_watch *watch = arg;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(LOOK_S * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
        if (!watch->stop) look(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* The thread takes no signal: they are for the main thread, which they may wake. */
static lh_status start_thread(lh_watch *watch)
{
    lh_status st = LH_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&watch->thread, NULL, watch_thread, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) LH_FAIL(LH_ECOMM, "cannot start the watchdog of --comm-timeout: %s", strerror(rc));
    watch->threaded = 1;
done:
    return st;
}

lh_status lh_watch_open(lh_watch **out, double timeout_s, int rank, const char *host)
{
    lh_status st = LH_OK;
    lh_watch *watch = NULL;
    pthread_condattr_t attr;
    LH_TRY(lh_calloc(&watch, 1, sizeof *watch));
    watch->timeout_s = timeout_s;
    watch->rank = rank;
    snprintf(watch->host, sizeof watch->host, "%s", host);
    watch->operation = "nothing";
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (timeout_s > 0) LH_TRY(start_thread(watch));
    *out = watch;
    watch = NULL;
done:
    lh_watch_close(watch);
    return st;
}

void lh_watch_close(lh_watch *watch)
{
    if (!watch) return;
    if (watch->threaded) {
        pthread_mutex_lock(&watch->lock);
        watch->stop = 1;
        pthread_cond_signal(&watch->wake);
        pthread_mutex_unlock(&watch->lock);
        pthread_join(watch->thread, NULL);
    }
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    lh_free(watch->peers);
    lh_free(watch);
}

lh_status lh_watch_peers(lh_watch *watch, const int *ranks, const int *pids, int count)
{
    lh_status st = LH_OK;
    peer *peers = NULL;
    int n = 0;
    LH_TRY(lh_calloc(&peers, count, sizeof *peers));
    for (int i = 0; i < count; i++)
        if (ranks[i] != watch->rank && !gone(pids[i])) peers[n++] = (peer){ranks[i], pids[i]};
    pthread_mutex_lock(&watch->lock);
    lh_free(watch->peers);
    watch->peers = peers;
    watch->peer_count = n;
    pthread_mutex_unlock(&watch->lock);
done:
    return st;
}

int lh_watch_alive(const lh_watch *watch, int rank)
{
    for (int i = 0; i < watch->peer_count; i++)
        if (watch->peers[i].rank == rank) return !gone(watch->peers[i].pid);
    return -1;
}

void lh_watch_step(lh_watch *watch, const char *step, int64_t number)
{
    if (!watch) return;
    watch->number = number;
    watch->step = step;
}

void lh_watch_enter(lh_watch *watch, const char *operation, int64_t bytes)
{
    if (!watch) return;
    watch->operation = operation;
    watch->bytes = bytes;
    atomic_fetch_add_explicit(&watch->waits, 1, memory_order_relaxed);
    watch->since_ns = watch->threaded ? now_ns() : 0;
}

void lh_watch_leave(lh_watch *watch)
{
    if (watch) watch->since_ns = 0;
}
