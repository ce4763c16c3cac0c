/* watch.c - the watchdog: a thread that checks periodically how long the main thread has waited for peers. When a peer
 * on this host has ended, or --comm-timeout is exceeded, it logs rank, host, operation and step, and ends the process;
 * the launcher ends the other ranks. Ranks on one host share a board, so that the message can name the missing rank and
 * only one rank reports. Time in which the whole process was suspended (scontrol suspend, Ctrl-Z) does not count: the
 * thread notices it as a gap between its own checks. */
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
#include "base/process.h"
#include "comm/comm_impl.h"

/* POLL_S: interval of the checks. ENDED_S: wait after which an ended peer is reported. TURN_S: delay between hosts, so
 * that only the first reports: mpirun ends the others 1 to 2 s after a rank has failed. GAP_S: time between two checks
 * above which this process did not run. */
static const double POLL_S = 0.2, ENDED_S = 0.5, TURN_S = 3, GAP_S = 1;
enum { MAX_TURNS = 4, END_S = 10 };

struct lh_watch {
    double timeout_s;
    int rank;
    char host[LH_HOST_BYTES];
    lh_board *board; /* NULL if no other rank is on this host */
    int seats, own;

    /* Written by the main thread, read by the watchdog's. */
    _Atomic int64_t since_ns; /* 0: not waiting */
    _Atomic int64_t waits;    /* number of waits so far */
    _Atomic(const char *) operation, step;
    _Atomic int64_t bytes, number;
    _Atomic int untimed; /* true: no timeout */

    /* Written by the watchdog's thread. */
    _Atomic int64_t checked_ns; /* time of the last check */
    int64_t checked_waits;      /* `waits` at the last check */
    int64_t suspended_ns;       /* part of the current wait in which this process did not run */
    _Atomic int64_t lost_ns;    /* total time in which this process did not run */

    void (*end)(void *self); /* called before the process ends; guarded by `lock` */
    void *end_self;

    int threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `stop` and the board */
    pthread_cond_t wake;
    int stop;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* "prefill of layer 3"; a number below 0 is not shown. */
static void put_step(char *out, size_t cap_bytes, const char *step, int64_t number)
{
    char text[32] = "";
    if (number >= 0) snprintf(text, sizeof text, " %lld", (long long)number);
    snprintf(out, cap_bytes, "%s%s", step, text);
}

void lh_watch_describe(const lh_watch *watch, char *out, int64_t cap_bytes)
{
    const char *step = watch->step;
    char size[32] = "", text[96];
    if (watch->bytes >= 0) snprintf(size, sizeof size, " of %lld bytes", (long long)watch->bytes);
    if (!step) {
        snprintf(out, (size_t)cap_bytes, "%s%s before the first step", watch->operation, size);
        return;
    }
    put_step(text, sizeof text, step, watch->number);
    snprintf(out, (size_t)cap_bytes, "%s%s in '%s'", watch->operation, size, text);
}

static int gone(int pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

int lh_watch_claim_report(lh_watch *watch)
{
    return !watch->board || atomic_exchange(&watch->board->spoken, 1) == 0;
}

/* The first other rank on this host that has ended (find_ended); or that is stopped, else that is not waiting
 * (find_absent). NULL if there is none. A rank that is stopped inside a collective counts as waiting. */
static const lh_seat *find_ended(const lh_watch *watch)
{
    for (int i = 0; i < watch->seats; i++)
        if (i != watch->own && gone(watch->board->seats[i].pid)) return &watch->board->seats[i];
    return NULL;
}

/* Seconds since the watchdog of that rank last ran, if its process is stopped; else 0. */
static double time_stopped(const lh_seat *seat)
{
    const double stopped_s = (double)(now_ns() - seat->checked_ns) * 1e-9;
    return stopped_s > GAP_S ? stopped_s : 0;
}

static const lh_seat *find_absent(const lh_watch *watch)
{
    const lh_seat *absent = NULL;
    for (int i = 0; i < watch->seats; i++) {
        const lh_seat *seat = &watch->board->seats[i];
        if (i == watch->own) continue;
        if (time_stopped(seat) > 0) return seat;
        if (!absent && !seat->waiting) absent = seat;
    }
    return absent;
}

/* out: [cap_bytes], "rank 2 does not take part, its last step is 'prefill of layer 2'". */
static void describe_absent(const lh_seat *absent, char *out, size_t cap_bytes)
{
    char stopped[64] = "";
    const double stopped_s = time_stopped(absent);
    if (stopped_s > 0)
        snprintf(stopped, sizeof stopped, "its process %d has not run for %.0f s, ", absent->pid, stopped_s);
    snprintf(out, cap_bytes, "rank %d does not take part, %sits last step is '%.*s'", absent->rank, stopped,
             (int)sizeof absent->step - 1, absent->step);
}

static void report_wait(const lh_watch *watch, const lh_seat *ended, double waited_s)
{
    char what[256], who[224] = "a peer does not take part";
    lh_watch_describe(watch, what, sizeof what);
    if (ended) {
        lh_log(LH_LOG_ERROR, 1, "rank %d (process %d on %s) has ended while rank %d waited in %s", ended->rank,
               ended->pid, watch->host, watch->rank, what);
        return;
    }
    const lh_seat *absent = find_absent(watch);
    if (absent) describe_absent(absent, who, sizeof who);
    lh_log(LH_LOG_ERROR, 1, "rank %d on %s has waited %.0f s in %s: %s (%s sets the time)", watch->rank, watch->host,
           waited_s, what, who, lh_setting("comm_timeout_s"));
}

/* Seconds of wait number `waits`, which began at `since`, in which this process ran: gaps between two checks above
 * GAP_S do not count. */
static double time_waited(lh_watch *watch, int64_t waits, int64_t since, int64_t now)
{
    const int64_t begin = since > watch->checked_ns ? since : watch->checked_ns, gap = now - begin;
    if (waits != watch->checked_waits) watch->suspended_ns = 0;
    if ((double)(now - watch->checked_ns) * 1e-9 > GAP_S) watch->suspended_ns += gap;
    watch->checked_waits = waits;
    return (double)(now - since - watch->suspended_ns) * 1e-9;
}

/* Seconds by which ranks of this host report later than ranks of the first host. */
static double turn_of(const lh_watch *watch)
{
    const int first = watch->seats ? watch->board->seats[0].rank : watch->rank;
    return TURN_S * (first < MAX_TURNS ? first : MAX_TURNS);
}

/* Called every POLL_S with the lock held. Ends the process if a peer has ended or the timeout is exceeded. */
static void check_wait(lh_watch *watch)
{
    int64_t waits = watch->waits, since = watch->since_ns, now = now_ns();
    double waited_s = since ? time_waited(watch, waits, since, now) : 0;
    if ((double)(now - watch->checked_ns) * 1e-9 > GAP_S) watch->lost_ns += now - watch->checked_ns;
    watch->checked_ns = now;
    if (watch->board) watch->board->seats[watch->own].checked_ns = now;
    if (!since) return;
    double turn_s = turn_of(watch);
    const lh_seat *ended = waited_s > ENDED_S ? find_ended(watch) : NULL;
    if (!ended && (watch->untimed || waited_s < watch->timeout_s + turn_s)) return;
    if (watch->waits != waits || watch->since_ns != since) return; /* the wait ended meanwhile */
    if (lh_watch_claim_report(watch)) report_wait(watch, ended, waited_s);
    alarm(END_S); /* in case `end` hangs */
    if (watch->end) watch->end(watch->end_self);
    _exit(LH_ECOMM);
}

double lh_watch_timeout(const lh_watch *watch)
{
    return watch ? watch->timeout_s : 0;
}

/* A gap that the thread has not noticed yet counts up to its last check. */
double lh_watch_clock(const lh_watch *watch)
{
    const int64_t now = now_ns();
    if (!watch || !watch->threaded) return (double)now * 1e-9;
    const int64_t lost = watch->lost_ns, checked = watch->checked_ns;
    return (double)((double)(now - checked) * 1e-9 > GAP_S ? checked - lost : now - lost) * 1e-9;
}

void lh_watch_check_heartbeat(lh_watch *watch, double heard_s, const char *peer, const char *what)
{
    if (!watch || !watch->threaded) return;
    const double silent_s = lh_watch_clock(watch) - heard_s;
    if (silent_s < watch->timeout_s + turn_of(watch)) return;
    if (lh_watch_claim_report(watch))
        lh_log(LH_LOG_ERROR, 1, "rank %d on %s waits for %s, and has heard nothing of %s for %.0f s (%s sets the time)",
               watch->rank, watch->host, what, peer, silent_s, lh_setting("comm_timeout_s"));
    fflush(NULL);
    alarm(END_S); /* in case `end` hangs */
    pthread_mutex_lock(&watch->lock);
    if (watch->end) watch->end(watch->end_self);
    _exit(LH_ECOMM);
}

static void *watch_thread(void *arg)
{
    lh_watch *watch = arg;
    pthread_mutex_lock(&watch->lock);
    watch->checked_ns = now_ns();
    while (!watch->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(POLL_S * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
        if (!watch->stop) check_wait(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static lh_status start_thread(lh_watch *watch)
{
    const int rc = lh_thread_start(&watch->thread, watch_thread, watch);
    if (rc != 0) LH_FAIL(LH_ECOMM, "cannot start the watchdog of %s: %s", lh_setting("comm_timeout_s"), strerror(rc));
    watch->threaded = 1;
    return LH_OK;
}

lh_status lh_watch_open(lh_watch **out, double timeout_s, int rank, const char *host)
{
    lh_status st = LH_OK;
    lh_watch *watch = NULL;
    pthread_condattr_t attr;
    LH_TRY_DONE(lh_calloc(&watch, 1, sizeof *watch));
    watch->timeout_s = timeout_s;
    watch->rank = rank;
    snprintf(watch->host, sizeof watch->host, "%s", host);
    watch->operation = "nothing";
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &attr);
    pthread_condattr_destroy(&attr);
    watch->checked_ns = now_ns();
    if (timeout_s > 0) LH_TRY_DONE(start_thread(watch));
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
    lh_free(watch);
}

void lh_watch_attach(lh_watch *watch, lh_board *board, int seats, int own)
{
    pthread_mutex_lock(&watch->lock);
    watch->board = board;
    watch->seats = seats;
    watch->own = own;
    if (board) board->seats[own].checked_ns = now_ns();
    /* Without a common process namespace (a container per rank) ended peers cannot be detected. */
    for (int i = 0; i < seats; i++)
        if (gone(board->seats[i].pid)) watch->seats = 0;
    pthread_mutex_unlock(&watch->lock);
}

void lh_watch_at_end(lh_watch *watch, void (*end)(void *self), void *self)
{
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->end = end;
    watch->end_self = self;
    pthread_mutex_unlock(&watch->lock);
}

int lh_watch_alive(const lh_watch *watch, int rank)
{
    for (int i = 0; i < watch->seats; i++)
        if (watch->board->seats[i].rank == rank) return !gone(watch->board->seats[i].pid);
    return -1;
}

void lh_watch_step(lh_watch *watch, const char *step, int64_t number)
{
    if (!watch) return;
    watch->number = number;
    watch->step = step;
    if (watch->board) put_step(watch->board->seats[watch->own].step, sizeof watch->board->seats->step, step, number);
}

static void show_waiting(lh_watch *watch, int waiting)
{
    if (watch->board) watch->board->seats[watch->own].waiting = waiting;
}

void lh_watch_enter(lh_watch *watch, const char *operation, int64_t bytes)
{
    if (!watch) return;
    watch->operation = operation;
    watch->bytes = bytes;
    atomic_fetch_add_explicit(&watch->waits, 1, memory_order_relaxed);
    if (!watch->threaded) return;
    watch->since_ns = now_ns();
    show_waiting(watch, 1);
}

void lh_watch_set_untimed(lh_watch *watch, int untimed)
{
    if (watch) watch->untimed = untimed;
}

void lh_watch_leave(lh_watch *watch)
{
    if (!watch || !watch->threaded) return;
    watch->since_ns = 0;
    show_waiting(watch, 0);
}
