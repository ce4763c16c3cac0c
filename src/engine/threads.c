/* threads.c - divides the cores of a host among its ranks, and counts the team that OpenMP gives. The cores that a
 * launcher keeps from ranks by binding are seen from the launcher's own cores: these are the allocation, where a batch
 * system or a container gives less than the host. */
#include "engine/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "device/machine.h"
#include "engine/engine.h"
#include "engine/spin_control.h"

struct lh_threads {
    int64_t wanted, count;
    char source[LH_THREADS_SOURCE];
    pthread_t thread; /* thread with the counted team, at this level of parallel regions */
    int level;
    int warned; /* of a team that became smaller */
    lh_spin_control *spin;
    /* of the binding: cores that this process may run on; cores that mpirun, or its daemon on this host, may run on, 0
     * if this process was started otherwise; of these, cores on which no rank of this host may run */
    int64_t cores, host, idle;
    int given; /* the number was asked for */
};

/* ---- the default number ---- */

/* Host, allowed cores and CPU quota of a rank. */
typedef struct rank_cores {
    char host[64];
    cpu_set_t cores;
    lh_cpu_quota quota;
} rank_cores;

static int is_launcher(const char *name)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun",       "orted",           "prterun",
                                        "prted",  "prte",    "mpiexec.hydra", "hydra_pmi_proxy", NULL};
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

/* The cores of the launcher among the parents of this process; 0: there is none. */
static int launcher_cores(cpu_set_t *cores)
{
    enum { GENERATIONS = 16 };
    lh_process p;
    long pid = getppid();
    for (int i = 0; i < GENERATIONS && pid > 1 && lh_process_read(pid, &p); i++, pid = p.parent)
        if (is_launcher(p.name)) return sched_getaffinity((pid_t)pid, sizeof *cores, cores) == 0;
    return 0;
}

int64_t lh_threads_default(const lh_thread_limits *limits, char source[LH_THREADS_SOURCE])
{
    const long asked = limits->asks ? strtol(limits->asks, NULL, 10) : 0; /* the first of a list */
    int64_t threads = (int64_t)(limits->cores + 1e-6);
    if (threads < 1) threads = 1;
    snprintf(source, LH_THREADS_SOURCE, "%.3g core%s", limits->cores, limits->cores == 1 ? "" : "s");
    if (limits->quota > 0 && limits->quota < (double)threads) {
        threads = limits->quota < 1 ? 1 : (int64_t)(limits->quota + 1e-6);
        snprintf(source, LH_THREADS_SOURCE, "a CPU quota of %.3g core%s", limits->quota, limits->quota == 1 ? "" : "s");
    }
    if (asked > 0 && asked < threads) {
        threads = asked;
        snprintf(source, LH_THREADS_SOURCE, "OMP_NUM_THREADS=%.64s", limits->asks);
    }
    return threads;
}

static int on_host(const rank_cores *a, const rank_cores *b)
{
    return strcmp(a->host, b->host) == 0;
}

static int share_quota(const rank_cores *a, const rank_cores *b)
{
    return on_host(a, b) && b->quota.cores > 0 && a->quota.device == b->quota.device &&
           a->quota.inode == b->quota.inode;
}

/* Collective. Sets wanted and its source to the default, and the cores of the binding. */
static lh_status share_cores(lh_threads *t, lh_comm *world)
{
    lh_status st = LH_OK;
    int size = lh_comm_size(world), quota_ranks = 0;
    rank_cores own = {0}, *all = NULL;
    cpu_set_t host;
    double share = 0;
    CPU_ZERO(&host);
    strncpy(own.host, lh_comm_host(world), sizeof own.host - 1);
    lh_cpu_quota_find("", &own.quota);
    lh_host_cores(&own.cores);
    if (!launcher_cores(&host)) CPU_ZERO(&host);
    st = lh_calloc(&all, size, sizeof *all);
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(lh_comm_allgather(world, &own, all, sizeof own));
    t->cores = CPU_COUNT(&own.cores);
    t->host = CPU_COUNT(&host);
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int sharing = 0;
        for (int r = 0; r < size; r++) sharing += on_host(&all[r], &own) && CPU_ISSET(c, &all[r].cores);
        if (CPU_ISSET(c, &own.cores)) share += 1.0 / sharing;
        if (CPU_ISSET(c, &host)) t->idle += sharing == 0;
    }
    for (int r = 0; r < size; r++) quota_ranks += share_quota(&own, &all[r]);
    t->wanted = lh_threads_default(
        &(lh_thread_limits){share, quota_ranks ? own.quota.cores / quota_ranks : 0, getenv("OMP_NUM_THREADS")},
        t->source);
done:
    lh_free(all);
    return st;
}

/* ---- the team ---- */

static int64_t count_team(int64_t wanted)
{
    int n = 1;
#pragma omp parallel num_threads((int)wanted)
#pragma omp master
    n = omp_get_num_threads();
    return n;
}

/* Why the calling thread's teams are smaller than asked for. */
static void name_cause(const lh_threads *t, char cause[LH_THREADS_SOURCE])
{
    const char *limit = getenv("OMP_THREAD_LIMIT"), *levels = getenv("OMP_MAX_ACTIVE_LEVELS");
    if (t->level > 0)
        snprintf(cause, LH_THREADS_SOURCE, "it is called inside a parallel region of OpenMP");
    else if (limit && omp_get_thread_limit() < t->wanted)
        snprintf(cause, LH_THREADS_SOURCE, "OMP_THREAD_LIMIT=%.64s", limit);
    else if (levels && omp_get_max_active_levels() < 1)
        snprintf(cause, LH_THREADS_SOURCE, "OMP_MAX_ACTIVE_LEVELS=%.64s", levels);
    else
        snprintf(cause, LH_THREADS_SOURCE, "OpenMP starts no more");
}

/* The process with a main team of threads, which its fork lacks while libgomp counts on them: a parallel region there
 * waits without end. */
static pid_t with_team;

/* Counts the team of the calling thread and makes its size the number of threads. */
static void take_team(lh_threads *t)
{
    t->thread = pthread_self();
    t->level = omp_get_level();
    omp_set_dynamic(0);
    t->count = count_team(t->wanted);
    omp_set_num_threads((int)t->count);
    if (t->count > 1) with_team = getpid();
}

/* Where a thread cannot be started libgomp ends the process. */
static lh_status check_start(const lh_threads *t)
{
    if (t->wanted < 1 || t->wanted > LH_THREADS_MAX)
        LH_FAIL(LH_EUSAGE, "%s is %lld, it must be between 1 and %d, or 0 for the default", lh_setting("threads"),
                (long long)t->wanted, LH_THREADS_MAX);
    if (t->wanted > 1 && with_team && with_team != getpid())
        LH_FAIL(LH_EUSAGE,
                "this process is a fork of process %ld, whose OpenMP threads it lacks: fork before the first engine is "
                "opened, or compute with one thread ('%s 1')",
                (long)with_team, lh_setting("threads"));
    if (!lh_thread_may_start((int)t->wanted - 1))
        LH_FAIL(
            LH_ENOMEM,
            "%lld threads cannot be started: raise the limit of processes ('ulimit -u') or of memory ('ulimit -v'), "
            "or give a smaller '%s'",
            (long long)t->wanted, lh_setting("threads"));
    return LH_OK;
}

/* A rank's team, for all ranks. */
typedef struct rank_team {
    int64_t wanted, count;
    char host[64], cause[LH_THREADS_SOURCE];
} rank_team;

/* One warning for the ranks with too small teams. */
static void warn_of_teams(const rank_team *all, int size)
{
    int first = -1, others = 0;
    char rank[96] = "", more[48] = "";
    for (int r = 0; r < size; r++) {
        if (all[r].count >= all[r].wanted) continue;
        others += first >= 0;
        if (first < 0) first = r;
    }
    if (first < 0) return;
    if (size > 1) snprintf(rank, sizeof rank, "rank %d on %s: ", first, all[first].host);
    if (others) snprintf(more, sizeof more, "; so do %d more ranks", others);
    lh_warn("%s%lld of %lld threads compute (%s)%s", rank, (long long)all[first].count, (long long)all[first].wanted,
            all[first].cause, more);
}

/* Collective. */
static lh_status compare_teams(lh_threads *t, lh_comm *world)
{
    lh_status st = LH_OK;
    const int size = lh_comm_size(world);
    rank_team own = {.wanted = t->wanted, .count = t->count}, *all = NULL;
    snprintf(own.host, sizeof own.host, "%s", lh_comm_host(world));
    if (t->count < t->wanted) {
        name_cause(t, own.cause);
        memcpy(t->source, own.cause, sizeof t->source);
    }
    st = lh_calloc(&all, size, sizeof *all);
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(lh_comm_allgather(world, &own, all, sizeof own));
    warn_of_teams(all, size);
done:
    lh_free(all);
    return st;
}

lh_status lh_threads_open(lh_threads **out, lh_comm *world, int64_t wanted)
{
    lh_status st = LH_OK;
    lh_threads *t = NULL;
    *out = NULL;
    st = lh_calloc(&t, 1, sizeof *t);
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(share_cores(t, world));
    t->given = wanted != 0;
    if (t->given) {
        t->wanted = wanted;
        snprintf(t->source, sizeof t->source, "%s", lh_setting("threads"));
    }
    LH_TRY_DONE(lh_comm_agree(world, check_start(t)));
    take_team(t);
    LH_TRY_DONE(compare_teams(t, world));
    LH_TRY_DONE(lh_comm_agree(world, lh_spin_control_open(&t->spin, t->count)));
    lh_debug("%lld thread%s (%s)%s", (long long)t->count, t->count == 1 ? "" : "s", t->source,
             t->spin ? ", which sleep while other processes want the cores" : "");
    *out = t;
    t = NULL;
done:
    lh_threads_close(t);
    return st;
}

lh_status lh_threads_open_alone(lh_threads **out, int64_t wanted)
{
    lh_status st = LH_OK;
    lh_comm *self = NULL;
    LH_TRY_DONE(lh_comm_open_self(&self));
    LH_TRY_DONE(lh_threads_open(out, self, wanted));
done:
    lh_comm_close(self);
    return st;
}

void lh_threads_close(lh_threads *t)
{
    if (!t) return;
    lh_spin_control_close(t->spin);
    lh_free(t);
}

lh_status lh_threads_enter(lh_threads *t)
{
    const int moved = !pthread_equal(t->thread, pthread_self());
    char cause[LH_THREADS_SOURCE];
    if (!moved && omp_get_level() == t->level && omp_get_max_threads() == t->count && !omp_get_dynamic()) return LH_OK;
    take_team(t);
    if (t->count < t->wanted && !t->warned && t->level > 0) {
        name_cause(t, cause);
        lh_warn("%lld of %lld threads compute (%s)", (long long)t->count, (long long)t->wanted, cause);
        t->warned = 1;
    }
    if (!moved) return LH_OK;
    lh_spin_control_close(t->spin);
    return lh_spin_control_open(&t->spin, t->count);
}

int64_t lh_threads_count(const lh_threads *t)
{
    return t->count;
}

const char *lh_threads_source(const lh_threads *t)
{
    return t->source;
}

void lh_threads_check_binding(const lh_threads *t)
{
    if (t->idle == 0 || (t->given && t->wanted <= t->cores)) return;
    lh_warn("each rank is bound to %lld of %lld cores: mpirun --bind-to none lets the ranks use all of them",
            (long long)t->cores, (long long)t->host);
}
