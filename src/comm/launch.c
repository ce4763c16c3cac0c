/* launch.c - finds out how this process was started: rank and size from the environment of mpirun or srun, without MPI;
 * used before MPI_Init and for failures before it. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "comm/comm_impl.h"

/* Environment variables with rank and number of ranks, the most reliable first: Open MPI's mpirun; PMI (Slurm, MPICH);
 * Slurm's own (PMIx has only the rank). Only processes started by srun have SLURM_STEP_NUM_TASKS, the job script itself
 * does not. */
static const struct {
    const char *rank, *size;
    int ends_others; /* true if the launcher, after a rank has failed, sends SIGCONT to the other ranks and SIGTERM a
                        second later */
    int strangers;   /* true if ranks cannot find each other; MPI would end the process, or treat it as the only rank */
} launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 1, 0},
                 {"PMI_RANK", "PMI_SIZE", 0, 0},
                 {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", 0, 0},
                 {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 0, 1}};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static int number(const char *name, int *out)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) return 0;
    long value = strtol(text, &end, 10);
    if (*end || value < 0 || value > 1 << 24) return 0;
    *out = (int)value;
    return 1;
}

/* Returns the index of the launcher, or LAUNCHERS if there is none. */
static int find_launcher(int *rank, int *size)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (number(launchers[i].rank, rank) && number(launchers[i].size, size) && *rank < *size) return i;
    *rank = 0;
    *size = 1;
    return LAUNCHERS;
}

int lh_comm_launched(int *rank, int *size)
{
    return find_launcher(rank, size) < LAUNCHERS;
}

int lh_comm_launched_strangers(void)
{
    int rank, size, by = find_launcher(&rank, &size);
    return by < LAUNCHERS && launchers[by].strangers;
}

int lh_comm_failed_alone(double wait_s)
{
    int rank, size, by = find_launcher(&rank, &size);
    struct timespec wait = {.tv_sec = (time_t)wait_s};
    sigset_t ends;
    wait.tv_nsec = (long)((wait_s - (double)wait.tv_sec) * 1e9);
    if (rank == 0 || !launchers[by].ends_others) return 0;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCONT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return sigtimedwait(&ends, NULL, &wait) < 0;
}
