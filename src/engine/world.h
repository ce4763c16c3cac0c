/* world.h - the communicator of an lh_world (longhaul.h). */
#ifndef LH_ENGINE_WORLD_H
#define LH_ENGINE_WORLD_H

#include "comm/comm.h"

/* The communicator of all ranks; NULL before MPI is started. */
lh_comm *lh_world_comm(const lh_world *world);

#endif
