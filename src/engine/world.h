/* world.h - the communicator of a world (longhaul.h). */
#ifndef LH_ENGINE_WORLD_H
#define LH_ENGINE_WORLD_H

#include "comm/comm.h"

/* Of all ranks; NULL before MPI is up. */
lh_comm *lh_world_comm(const lh_world *world);

#endif
