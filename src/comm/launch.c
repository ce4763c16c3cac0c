/* How this process was started. */
#include <stdlib.h>

#include "comm/comm_impl.h"

/* Where launchers put rank and number of ranks, the surest first: Open MPI's mpirun; PMI (Slurm, MPICH); Slurm's own
 * (PMIx says the rank only). A job script itself has no SLURM_STEP_NUM_TASKS, only what srun starts has. */
static const struct {
    const char *rank, *size;
} launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMI_RANK", "PMI_SIZE"},
                 {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                 {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

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

int lh_comm_launched(int *rank, int *size)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number(launchers[i].rank, rank) && number(launchers[i].size, size) && *rank < *size) return 1;
    *rank = 0;
    *size = 1;
    return 0;
}

lh_status lh_comm_open_world(lh_comm **out, double timeout_s)
{
    lh_status st = LH_OK;
    lh_comm *comm = NULL;
    int rank, size;
    if (!lh_comm_launched(&rank, &size) || size == 1) return lh_comm_open_self(out);
    LH_TRY(lh_comm_open_mpi(&comm, timeout_s));
    if (comm->size != size)
        LH_FAIL(LH_ECOMM, "the launcher started %d ranks, MPI sees %d: use mpirun, or srun --mpi=pmix", size,
                comm->size);
    *out = comm;
    comm = NULL;
done:
    lh_comm_close(comm);
    return st;
}
