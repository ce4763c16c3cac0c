/* A small run with five steps of collectives, for faults.sh: fault_run RANK PLAN TIMEOUT_S. Plans are those of
 * faulty_comm_open and:
 *   leave:N  at step N all ranks leave with code 75, as after Ctrl-C; RANK takes its time to write a line first
 *   first:N  the same, but the others know nothing of it and go on
 *   alone:N  at step N RANK goes away with code 3 and tells nobody
 *   agreed:N RANK fails at step N, and all agree on it
 *   own:N    RANK fails at step N, tells nobody, and closes what it shares with the others before it says so
 *   suspend:N  all ranks are stopped for 4 s at step N and resumed; RANK is a second late there, the others wait for it
 *   late:N   RANK is 3 s late at step N, where the others agree patiently
 *   none     nothing happens
 * Ends as the program does: one message, the status as the exit code. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/comm.h"
#include "comm/faulty_comm.h"

static lh_status one_step(lh_comm *comm, int64_t step, int patient, lh_status mine)
{
    int64_t ones[4] = {1, 1, 1, step}, all[64], own = lh_comm_rank(comm);
    lh_comm_step(comm, "loop", step);
    LH_TRY(patient ? lh_comm_agree_untimed(comm, mine) : lh_comm_agree(comm, mine));
    LH_TRY(lh_comm_allreduce(comm, ones, 4, LH_I64, LH_SUM));
    LH_TRY(lh_comm_allgather(comm, &own, all, sizeof own));
    LH_TRY(lh_comm_bcast(comm, 0, all, sizeof all));
    if (ones[0] != lh_comm_size(comm) || ones[3] != step * lh_comm_size(comm))
        LH_FAIL(LH_EINTERNAL, "sums are wrong at step %lld", (long long)step);
    return LH_OK;
}

/* 1 when `plan` is "name:step". */
static int planned(const char *plan, const char *name, int step)
{
    size_t n = strlen(name);
    return strncmp(plan, name, n) == 0 && plan[n] == ':' && atoi(plan + n + 1) == step;
}

/* In slices: a process that is stopped meanwhile has not slept enough when it resumes. */
static void sleep_in_slices(int slices)
{
    for (int i = 0; i < slices; i++) usleep(10000);
}

/* A child stops this process in 0.3 s and resumes it 4 s later. */
static void suspend_soon(void)
{
    const pid_t parent = getpid();
    if (fork() != 0) return;
    usleep(300000);
    kill(parent, SIGSTOP);
    sleep(4);
    kill(parent, SIGCONT);
    _exit(0);
}

static void misbehave(lh_comm *comm, const char *plan, int here, int step)
{
    int first = planned(plan, "first", step) && here;
    if (first || planned(plan, "leave", step)) {
        if (here) {
            usleep(400000);
            printf("written before leaving\n");
        }
        lh_comm_leave(comm, LH_EINTERRUPTED);
    }
    if (here && planned(plan, "alone", step)) _exit(3);
    if (planned(plan, "suspend", step)) suspend_soon();
    if (here && planned(plan, "suspend", step)) sleep_in_slices(100);
    if (here && planned(plan, "late", step)) sleep_in_slices(300);
}

static lh_status fails_at(const char *plan, const char *name, int here, int step)
{
    if (!here || !planned(plan, name, step)) return LH_OK;
    return lh_fail(LH_EFILE, __FILE__, __LINE__, "a bad file at step %d", step);
}

/* 1 for a plan of this program, 0 for one of faulty_comm_open. */
static int is_own(const char *plan)
{
    static const char *const own[] = {"leave:", "first:", "alone:", "agreed:", "own:", "suspend:", "late:", "none"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(plan, own[i], strlen(own[i])) == 0) return 1;
    return 0;
}

int main(int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_comm *world = NULL, *faulty = NULL, *part = NULL, *comm = NULL;
    if (argc != 4) return LH_EUSAGE;
    const char *plan = argv[2];
    int here = 0;
    LH_TRY_DONE(lh_comm_open_world(&world, atof(argv[3])));
    lh_log_set_rank(lh_comm_rank(world), lh_comm_size(world));
    comm = world;
    here = lh_comm_rank(world) == atoi(argv[1]);
    if (!is_own(plan)) {
        LH_TRY_DONE(faulty_comm_open(&faulty, world, atoi(argv[1]), plan));
        comm = faulty;
    }
    LH_TRY_DONE(lh_comm_split(world, 0, &part));
    for (int step = 0; step < 5; step++) {
        misbehave(comm, plan, here, step);
        LH_TRY_DONE(fails_at(plan, "own", here, step));
        lh_comm *with = strncmp(plan, "own:", 4) == 0 ? part : comm;
        LH_TRY_DONE(one_step(with, step, planned(plan, "late", step), fails_at(plan, "agreed", here, step)));
    }
    if (lh_comm_rank(world) == 0) printf("all steps done\n");
done:
    lh_comm_close(part);
    if (st != LH_OK && world && !lh_comm_agreed(world)) {
        lh_log(LH_LOG_ERROR, 1, "rank %d on %s: %s", lh_comm_rank(world), lh_comm_host(world), lh_error_message());
        lh_comm_leave(world, (int)st);
    }
    if (st != LH_OK) lh_log(LH_LOG_ERROR, 0, "%s", lh_error_message());
    lh_comm_close(faulty);
    lh_comm_close(world);
    return st;
}
