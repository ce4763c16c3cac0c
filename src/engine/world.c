/* world.c - begins and ends a run on all ranks: probes files, starts MPI, compares versions and options; reports the
 * failure and chooses the exit code. */
#include "engine/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/h5.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sized_struct.h"
#include "base/version.h"
#include "import/random_shapes.h"

struct lh_world {
    lh_comm *comm;
    pid_t process; /* that opened it */
};

static lh_status probe(const char *const *files)
{
    for (int i = 0; files && files[i]; i++)
        if (!lh_random_shape_of(files[i])) LH_TRY(lh_h5_probe(files[i]));
    return LH_OK;
}

/* Seconds that ranks wait for each other where the options do not say. */
static const double TIMEOUT_S = 600;

/* Collective. The ranks of the program's communicator, of the launcher, or this one alone. */
static lh_status open_comm(lh_comm **out, const lh_world_options *o)
{
    double timeout_s = o->comm_timeout_s == 0 ? TIMEOUT_S : isinf(o->comm_timeout_s) ? 0 : o->comm_timeout_s;
    if (!(o->comm_timeout_s >= 0)) LH_FAIL(LH_EUSAGE, "comm_timeout_s must be 0 (the default) or more");
    if (o->mpi_comm) return lh_comm_open_mpi_on(out, o->mpi_comm, timeout_s);
    return lh_comm_open_world(out, timeout_s);
}

/* Collective. Builds of the same commit may differ, for hosts of other kinds. */
static lh_status same_version(lh_comm *comm)
{
    char text[128];
    int n = snprintf(text, sizeof text, "%s %s", lh_version(), lh_version_git());
    return lh_comm_same(comm, text, n, "version and commit of longhaul");
}

lh_status lh_world_open(lh_world **out, const lh_world_options *given)
{
    lh_world_options options = {0};
    lh_status st = LH_OK, probed = LH_OK;
    lh_world *w = NULL;
    int rank = 0, size = 1;
    lh_comm_launched(&rank, &size);
    LH_TRY(lh_check_given(out, "world"));
    lh_log_set_rank(rank, size);
    *out = NULL;
    if (given) LH_TRY(lh_struct_read(&options, sizeof options, given, "lh_world_options"));
    LH_TRY(lh_calloc(&w, 1, sizeof *w));
    w->process = getpid();
    *out = w;
    probed = probe(options.files); /* on every rank: a host, a container or a working folder may have its own copy */
    st = open_comm(&w->comm, &options);
    if (st != LH_OK) return st;
    lh_log_set_rank(lh_comm_rank(w->comm), lh_comm_size(w->comm));
    LH_TRY(lh_comm_agree(w->comm, probed));
    LH_TRY(same_version(w->comm));
    if (options.same) LH_TRY(lh_comm_same(w->comm, options.same, (int64_t)strlen(options.same), "the options"));
    return st;
}

int lh_world_rank(const lh_world *world)
{
    const lh_comm *comm = lh_world_comm(world);
    return comm ? lh_comm_rank(comm) : 0;
}

int lh_world_size(const lh_world *world)
{
    const lh_comm *comm = lh_world_comm(world);
    return comm ? lh_comm_size(comm) : 1;
}

lh_comm *lh_world_comm(const lh_world *world)
{
    return world ? world->comm : NULL;
}

/* Seconds that a rank which fails before there is a communicator waits for rank 0 to fail, too. */
static const double ALONE_S = 5;

int lh_world_close(lh_world *world, lh_status st)
{
    const int is_fork = world && world->process != getpid(); /* the ranks are the parent's: the child is alone */
    lh_comm *comm = is_fork ? NULL : lh_world_comm(world);
    int alone = st != LH_OK && comm && lh_comm_size(comm) > 1 && !lh_comm_agreed(comm);
    if (st != LH_OK && st != LH_EINTERRUPTED && *lh_error_message()) {
        if (alone)
            lh_log(LH_LOG_ERROR, 1, "rank %d on %s: %s", lh_comm_rank(comm), lh_comm_host(comm), lh_error_message());
        else
            lh_log(LH_LOG_ERROR, is_fork || (!comm && lh_comm_failed_alone(ALONE_S)), "%s", lh_error_message());
        lh_debug("at %s", lh_error_trace());
    }
    if (alone) lh_comm_leave(comm, (int)st);
    lh_comm_close(comm);
    if (!is_fork) lh_free(world);
    return (int)st;
}
