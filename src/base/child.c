/* child.c - forks, limits processor time and memory of the child, and reads its status and message through a pipe. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { CAN_LIMIT_MEMORY = 0 }; /* the shadow memory of sanitizers exceeds any useful limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { CAN_LIMIT_MEMORY = 0 };
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif

typedef struct child_report {
    int st;
    char message[2048];
} child_report;

static int64_t mapped_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%lld", &pages) != 1) pages = 0;
    fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void set_limits(const lh_child_limits *limits)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (limits->cpu_s > 0) {
        const struct rlimit cpu = {(rlim_t)limits->cpu_s, (rlim_t)limits->cpu_s + 1};
        setrlimit(RLIMIT_CPU, &cpu);
    }
    if (limits->memory_bytes > 0 && CAN_LIMIT_MEMORY) {
        const rlim_t bytes = (rlim_t)(limits->memory_bytes + mapped_bytes());
        const struct rlimit memory = {bytes, bytes};
        setrlimit(RLIMIT_AS, &memory);
    }
}

static void run_in_child(const lh_child_work *work, const lh_child_limits *limits, int fd)
{
    child_report report = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = work->voice == LH_CHILD_SILENT ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0) dup2(null, 2);
    signal(SIGXCPU, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
    set_limits(limits);
    lh_error_clear();
    report.st = work->work(work->arg);
    snprintf(report.message, sizeof report.message, "%s", lh_error_message());
    fflush(NULL);
    for (size_t at = 0; at < sizeof report;) {
        ssize_t n = write(fd, (const char *)&report + at, sizeof report - at);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) at += (size_t)n;
    }
    _exit(0);
}

/* 1 if the whole report arrived, 0 if the child died before. */
static int read_report(int fd, child_report *report)
{
    size_t at = 0;
    while (at < sizeof *report) {
        ssize_t n = read(fd, (char *)report + at, sizeof *report - at);
        if (n == 0 || (n < 0 && errno != EINTR)) return 0;
        if (n > 0) at += (size_t)n;
    }
    report->message[sizeof report->message - 1] = '\0';
    return 1;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* The kernel ends a child with SIGXCPU or SIGKILL for its limit of time, and with SIGKILL when memory runs out. */
static int is_out_of_time(int how, const struct rusage *used, const lh_child_limits *limits)
{
    if (!WIFSIGNALED(how)) return 0;
    if (WTERMSIG(how) == SIGXCPU) return 1;
    return WTERMSIG(how) == SIGKILL && limits->cpu_s > 0 &&
           seconds_of(used->ru_utime) + seconds_of(used->ru_stime) >= (double)limits->cpu_s;
}

lh_status lh_child_run(const lh_child_work *work, const lh_child_limits *limits)
{
    lh_status st = LH_OK;
    child_report report = {0};
    int ends[2] = {-1, -1}, how = 0;
    pid_t child = -1;
    struct rusage used = {0};
    if (pipe(ends) != 0) LH_FAIL_DONE(LH_EINTERNAL, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    child = fork();
    if (child < 0) LH_FAIL_DONE(LH_ENOMEM, "cannot start a process to check '%s': %s", work->what, strerror(errno));
    if (child == 0) {
        close(ends[0]);
        run_in_child(work, limits, ends[1]);
    }
    close(ends[1]);
    ends[1] = -1;
    int whole = read_report(ends[0], &report);
    while (wait4(child, &how, 0, &used) < 0 && errno == EINTR) continue;
    if (whole && report.st != LH_OK) LH_FAIL_DONE((lh_status)report.st, "%s", report.message);
    if (whole) goto done;
    if (WIFSIGNALED(how) && (WTERMSIG(how) == SIGINT || WTERMSIG(how) == SIGTERM || WTERMSIG(how) == SIGHUP))
        LH_FAIL_DONE(LH_EINTERRUPTED, "interrupted while reading '%s'", work->what);
    if (is_out_of_time(how, &used, limits))
        LH_FAIL_DONE(work->code, "'%s' is damaged: reading it did not end within %lld s", work->what,
                     (long long)limits->cpu_s);
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
        LH_FAIL_DONE(LH_ENOMEM,
                     "the process that checks '%s' was killed, probably for its memory: allow this job more memory",
                     work->what);
    if (WIFSIGNALED(how))
        LH_FAIL_DONE(work->code, "'%s' is damaged: reading it crashed (%s)", work->what, strsignal(WTERMSIG(how)));
    LH_FAIL_DONE(work->code, "'%s' is damaged: reading it ended with exit code %d", work->what, WEXITSTATUS(how));
done:
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    return st;
}
