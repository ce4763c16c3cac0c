/* spin_control.c - libgomp has no call that changes how its threads wait, but a documented rule (manual,
 * GOMP_SPINCOUNT): while a process has more OpenMP threads than cores, a waiting thread spins 100 times instead of
 * 300,000. So a team of sleeping threads, the idle team, exists while the cores are shared. */
#include "engine/spin_control.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/process.h"

/* INTERVAL_NS: time between two measurements. FADE: weight of older intervals at each. */
enum { INTERVAL_NS = 20000000 };
static const double FADE = 0.6, SHARED_FROM = 0.25, ALONE_BELOW = 0.12, LEAST_NS = 1e6;

struct lh_spin_control {
    int64_t threads;
    int *schedstat; /* [threads] files, -1: none */
    int idle_threads;

    pthread_t thread, idle_team;
    int threaded;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;  /* signals the end of the control thread or of the idle team */
    int stop, has_idle_team;
    int may_start_idle_team; /* false: the team could not be started */
};

int lh_core_share_add(lh_core_share *share, lh_core_times interval)
{
    share->late.run_ns = share->late.run_ns * FADE + interval.run_ns;
    share->late.delay_ns = share->late.delay_ns * FADE + interval.delay_ns;
    /* idle threads show nothing: LEAST_NS stands for the little time that they ran */
    double part = share->late.delay_ns / (share->late.run_ns + share->late.delay_ns + LEAST_NS);
    share->shared = part > (share->shared ? ALONE_BELOW : SHARED_FROM);
    return share->shared;
}

/* Opens the files of the calling thread's team. */
static void open_schedstat(lh_spin_control *control)
{
#pragma omp parallel num_threads((int)control->threads)
    {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
        control->schedstat[omp_get_thread_num()] = open(path, O_RDONLY | O_CLOEXEC);
    }
}

/* Sums over the threads. 0: one cannot be read. */
static int read_times(const lh_spin_control *control, lh_core_times *times)
{
    *times = (lh_core_times){0};
    for (int64_t t = 0; t < control->threads; t++) {
        char text[96];
        double run_ns, delay_ns;
        ssize_t n = pread(control->schedstat[t], text, sizeof text - 1, 0);
        if (n <= 0) return 0;
        text[n] = 0;
        if (sscanf(text, "%lf %lf", &run_ns, &delay_ns) != 2) return 0;
        times->run_ns += run_ns;
        times->delay_ns += delay_ns;
    }
    return 1;
}

/* A team that does nothing; its threads count while the thread that opened the team lives. */
static void *idle_thread(void *arg)
{
    lh_spin_control *control = arg;
    int started = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(control->idle_threads) reduction(+ : started)
    started++;
    pthread_mutex_lock(&control->lock);
    while (started && control->has_idle_team) pthread_cond_wait(&control->wake, &control->lock);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

static void start_idle_team(lh_spin_control *control)
{
    if (!control->may_start_idle_team) return;
    if (!lh_thread_may_start(control->idle_threads)) { /* a limit of threads: waiting threads spin */
        control->may_start_idle_team = 0;
        return;
    }
    control->has_idle_team = 1; /* before its thread reads it */
    if (pthread_create(&control->idle_team, NULL, idle_thread, control) != 0) control->has_idle_team = 0;
}

/* With the lock held, which is free while the thread ends. */
static void end_idle_team(lh_spin_control *control)
{
    control->has_idle_team = 0;
    pthread_cond_broadcast(&control->wake);
    pthread_mutex_unlock(&control->lock);
    pthread_join(control->idle_team, NULL);
    pthread_mutex_lock(&control->lock);
}

/* Waits for the next interval, with the lock held. */
static void wait_interval(lh_spin_control *control)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += INTERVAL_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!control->stop && pthread_cond_timedwait(&control->wake, &control->lock, &until) == 0) {
    }
}

static void *control_thread(void *arg)
{
    lh_spin_control *control = arg;
    lh_core_share share = {0};
    lh_core_times before, now;
    int known = read_times(control, &before);
    pthread_mutex_lock(&control->lock);
    while (known && !control->stop) {
        wait_interval(control);
        known = read_times(control, &now);
        if (!known || control->stop) break;
        int shared =
            lh_core_share_add(&share, (lh_core_times){now.run_ns - before.run_ns, now.delay_ns - before.delay_ns});
        if (shared && !control->has_idle_team) start_idle_team(control);
        if (!shared && control->has_idle_team) end_idle_team(control);
        before = now;
    }
    if (control->has_idle_team) end_idle_team(control);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

static lh_status start_thread(lh_spin_control *control)
{
    const int rc = lh_thread_start(&control->thread, control_thread, control);
    if (rc != 0) LH_FAIL(LH_ENOMEM, "cannot start the thread that watches the cores: %s", strerror(rc));
    control->threaded = 1;
    return LH_OK;
}

lh_status lh_spin_control_open(lh_spin_control **out, int64_t threads)
{
    lh_status st = LH_OK;
    lh_spin_control *control = NULL;
    pthread_condattr_t attr;
    lh_core_times times;
    *out = NULL;
    if (threads < 2 || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return LH_OK;
    LH_TRY_DONE(lh_calloc(&control, 1, sizeof *control));
    control->threads = threads;
    control->may_start_idle_team = 1;
    control->idle_threads = (int)lh_max_i64(2, omp_get_num_procs() - threads + 2); /* its first thread does not count */
    pthread_mutex_init(&control->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&control->wake, &attr);
    pthread_condattr_destroy(&attr);
    LH_TRY_DONE(lh_calloc(&control->schedstat, threads, sizeof *control->schedstat));
    for (int64_t t = 0; t < threads; t++) control->schedstat[t] = -1;
    open_schedstat(control);
    if (!read_times(control, &times)) goto done;
    LH_TRY_DONE(start_thread(control));
    *out = control;
    control = NULL;
done:
    lh_spin_control_close(control);
    return st;
}

void lh_spin_control_close(lh_spin_control *control)
{
    if (!control) return;
    if (control->threaded) {
        pthread_mutex_lock(&control->lock);
        control->stop = 1;
        pthread_cond_broadcast(&control->wake);
        pthread_mutex_unlock(&control->lock);
        pthread_join(control->thread, NULL);
    }
    for (int64_t t = 0; control->schedstat && t < control->threads; t++)
        if (control->schedstat[t] >= 0) close(control->schedstat[t]);
    lh_free(control->schedstat);
    pthread_cond_destroy(&control->wake);
    pthread_mutex_destroy(&control->lock);
    lh_free(control);
}

int lh_spin_control_sleeps(const lh_spin_control *control)
{
    lh_spin_control *locked = (lh_spin_control *)control;
    if (!control) return 0;
    pthread_mutex_lock(&locked->lock);
    int sleeps = control->has_idle_team;
    pthread_mutex_unlock(&locked->lock);
    return sleeps;
}
