/* A small run with five steps of collectives, for faults.sh: fault_run RANK PLAN TIMEOUT_S. Plans are those of
 * lh_comm_open_faulty and:
 *   leave:N  at step N all ranks leave with code 75, as after Ctrl-C; RANK takes its time to write a line first
 *   alone:N  at step N RANK goes away with code 3 and tells nobody
 *   none     nothing happens
 * Ends as the program does: one message, the status as the exit code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/comm.h"

static lh_status one_step(lh_comm *comm, int64_t step)
{
    lh_status st = LH_OK;
    int64_t ones[4] = {1, 1, 1, step}, all[64], own = lh_comm_rank(comm);
    lh_comm_step(comm, "loop", step);
    LH_TRY(lh_comm_agree(comm, LH_OK));
    LH_TRY(lh_comm_allreduce(comm, ones, 4, LH_I64, LH_SUM));
    LH_TRY(lh_comm_allgather(comm, &own, all, sizeof own));
    LH_TRY(lh_comm_bcast(comm, 0, all, sizeof all));
    if (ones[0] != lh_comm_size(comm) || ones[3] != step * lh_comm_size(comm))
        LH_FAIL(LH_EINTERNAL, "sums are wrong at step %lld", (long long)step);
done:
    return st;
}

static void misbehave(lh_comm *comm, const char *plan, int here, int step)
{
    if (strncmp(plan, "leave:", 6) == 0 && atoi(plan + 6) == step) {
        if (here) {
            usleep(400000);
            printf("written before leaving\n");
        }
        lh_comm_leave(comm, LH_EINTERRUPTED);
    }
    if (strncmp(plan, "alone:", 6) == 0 && atoi(plan + 6) == step && here) _exit(3);
}

int main(int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_comm *world = NULL, *faulty = NULL, *comm = NULL;
    if (argc != 4) return LH_EUSAGE;
    const char *plan = argv[2];
    LH_TRY(lh_comm_open_world(&world, atof(argv[3])));
    lh_log_set_rank(lh_comm_rank(world), lh_comm_size(world));
    comm = world;
    if (strncmp(plan, "leave", 5) != 0 && strncmp(plan, "alone", 5) != 0 && strcmp(plan, "none") != 0) {
        LH_TRY(lh_comm_open_faulty(&faulty, world, atoi(argv[1]), plan));
        comm = faulty;
    }
    for (int step = 0; step < 5; step++) {
        misbehave(comm, plan, lh_comm_rank(comm) == atoi(argv[1]), step);
        LH_TRY(one_step(comm, step));
    }
    if (lh_comm_rank(world) == 0) printf("all steps done\n");
done:
    if (st != LH_OK && (!world || lh_comm_speaks(world))) lh_log(LH_LOG_ERROR, 1, "%s", lh_error_message());
    lh_comm_close(faulty);
    lh_comm_close(world);
    return st;
}
