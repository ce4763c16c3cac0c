/* Laws of engine/spin_control.h. How much faster decoding is cannot be a test: tools/measure_waiting.py. */
#include <check.h>
#include <dirent.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/spin_control.h"
#include "suite.h"

enum { PATIENCE_S = 60, CORES = 256, NOBODY = 65534 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int threads_of_process(void)
{
    int threads = 0;
    DIR *d = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) threads += e->d_name[0] != '.';
    closedir(d);
    return threads;
}

/* Two threads at work, until the control sleeps or does not, or patience ends. */
static int work_until(const lh_spin_control *control, int sleeps, double patience_s)
{
    double end = now_s() + patience_s;
    while (lh_spin_control_sleeps(control) != sleeps && now_s() < end) {
#pragma omp parallel num_threads(2)
        for (volatile int i = 0; i < 100000; i++) {
        }
    }
    return lh_spin_control_sleeps(control) == sleeps;
}

/* Two processes a core that compute without end. */
typedef struct crowd {
    pid_t of[CORES];
    int count;
} crowd;

static void start_others(crowd *others)
{
    others->count = 2 * omp_get_num_procs() < CORES ? 2 * omp_get_num_procs() : CORES;
    for (int i = 0; i < others->count; i++) {
        others->of[i] = fork();
        ck_assert_int_ge(others->of[i], 0);
        if (others->of[i] == 0)
            for (;;) {
            }
    }
}

static void end_others(const crowd *others)
{
    for (int i = 0; i < others->count; i++) kill(others->of[i], SIGKILL), waitpid(others->of[i], NULL, 0);
}

START_TEST(test_waiting_for_a_core_is_told_from_being_interrupted)
{
    static const struct {
        const char *what;
        double run_ns[6], delay_ns[6];
        int shared[6];
    } cases[] = {
        {"an idle machine", {4e7, 4e7, 4e7, 4e7, 4e7, 4e7}, {0, 2e6, 0, 4e6, 0, 0}, {0}},
        {"another process on every core",
         {2e7, 2e7, 2e7, 2e7, 2e7, 2e7},
         {2e7, 2e7, 1.1e7, 1.1e7, 1.1e7, 1.1e7},
         {1, 1, 1, 1, 1, 1}},
        {"the other process ends", {2e7, 2e7, 4e7, 4e7, 4e7, 4e7}, {2e7, 2e7, 0, 0, 0, 0}, {1, 1, 1, 1, 0, 0}},
        {"one interruption", {4e7, 4e7, 3e7, 4e7, 4e7, 4e7}, {0, 0, 1e7, 0, 0, 0}, {0}},
        {"threads that have nothing to do", {1e4, 1e4, 1e4, 1e4, 1e4, 1e4}, {5e4, 5e4, 5e4, 5e4, 5e4, 5e4}, {0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lh_core_share share = {0};
        for (int i = 0; i < 6; i++) {
            int shared = lh_core_share_add(&share, (lh_core_times){cases[c].run_ns[i], cases[c].delay_ns[i]});
            ck_assert_msg(shared == cases[c].shared[i], "%s, interval %d: %d", cases[c].what, i, shared);
        }
    }
}
END_TEST

START_TEST(test_what_the_environment_says_overrules)
{
    static const char *const names[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"};
    lh_spin_control *control;
    unsetenv("OMP_WAIT_POLICY");
    for (int i = 0; i < 2; i++) {
        setenv(names[i], i ? "1000" : "active", 1);
        ck_assert_int_eq(lh_spin_control_open(&control, 2), LH_OK);
        ck_assert_ptr_null(control);
        unsetenv(names[i]);
    }
    ck_assert_int_eq(lh_spin_control_open(&control, 1), LH_OK);
    ck_assert_ptr_null(control);
    lh_spin_control_close(NULL);
}
END_TEST

/* Also: what keeps libgomp from spinning, more threads than cores, is there as long, and ends with the control. */
START_TEST(test_threads_sleep_while_other_processes_want_the_cores)
{
    lh_spin_control *control;
    crowd others;
    unsetenv("OMP_WAIT_POLICY");
    ck_assert_int_eq(lh_spin_control_open(&control, 2), LH_OK);
    if (!control) return; /* this system does not say how long threads wait */
    int before = threads_of_process();
    start_others(&others);
    int slept = work_until(control, 1, PATIENCE_S), during = threads_of_process();
    end_others(&others);
    ck_assert_msg(slept, "the threads still spin beside %d other processes", others.count);
    ck_assert_int_gt(during, before);
    ck_assert_int_gt(during, omp_get_num_procs());
    lh_spin_control_close(control);
    ck_assert_int_lt(threads_of_process(), during);
}
END_TEST

/* Where no more threads may be started the run goes on as it is: libgomp would end it. */
START_TEST(test_a_limit_of_threads_ends_nothing)
{
    lh_spin_control *control;
    crowd others;
    if (geteuid() != 0) return; /* who else has threads is not known, and limits do not hold for root: */
    unsetenv("OMP_WAIT_POLICY");
    ck_assert_int_eq(lh_spin_control_open(&control, 2), LH_OK);
    if (!control) return;
    ck_assert_int_eq(setuid(NOBODY), 0);
    start_others(&others);
    rlim_t one_more = (rlim_t)(others.count + threads_of_process() + 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &(struct rlimit){one_more, one_more}), 0);
    work_until(control, 1, 1);
    ck_assert_int_eq(lh_spin_control_sleeps(control), 0);
    end_others(&others);
    lh_spin_control_close(control);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_waiting_for_a_core_is_told_from_being_interrupted, test_what_the_environment_says_overrules,
        test_threads_sleep_while_other_processes_want_the_cores, test_a_limit_of_threads_ends_nothing, NULL};
    return suite_run("spin_control", tests);
}
