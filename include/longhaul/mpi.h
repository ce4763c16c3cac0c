/* mpi.h - longhaul.h for programs that use MPI themselves: a world of the ranks of their communicator. */
#ifndef LONGHAUL_MPI_H
#define LONGHAUL_MPI_H

#include <longhaul/longhaul.h>
#include <mpi.h>

/* Collective over `ranks`, a communicator of the program, of which a duplicate is used; neither `ranks` nor its error
 * handler changes. As lh_world_open otherwise. lh_world_close leaves MPI running. */
static inline lh_status lh_world_open_on(lh_world **out, MPI_Comm ranks, const lh_world_options *options)
{
    lh_world_options on = {.size = sizeof on};
    if (options) on = *options;
    on.mpi_comm = &ranks;
    return lh_world_open(out, &on);
}

#endif
