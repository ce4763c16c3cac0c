/* yield.c - sched_yield for the processes of tests, which LD_PRELOAD loads: a process that waits long sleeps.
 *
 * Open MPI, the communicators and the devices wait in loops that call sched_yield. With more ranks than cores, and
 * several tests at a time, such loops took a quarter of the processor time of all tests. A wait of less than
 * SHORT still yields, so that ranks that answer at once are as fast as without this; then it sleeps for a quarter of
 * the time that it has lasted, within bounds. */
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { GAP = 20000, SHORT = 100000, LEAST = 50000, MOST = 500000 }; /* ns */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int sched_yield(void)
{
    static __thread int64_t began, ended; /* of the wait; of the last call */
    int64_t t = now(), nap;
    if (ended == 0) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* a sleep of 50 us would take twice as long */
    if (t - ended > GAP) began = t;                       /* something else was done since: another wait */
    nap = (t - began) / 4;
    if (nap < LEAST) nap = LEAST;
    if (nap > MOST) nap = MOST;
    if (t - began < SHORT)
        syscall(SYS_sched_yield);
    else
        nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
    ended = now();
    return 0;
}
