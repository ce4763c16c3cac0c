/* sdpa_build.h - a plan of attention (sdpa_plan.h) in the making, which takes seconds of a processor: a thread of its
 * own takes the plan from the user's cache folder (sdpa_cache.h) or builds it and keeps it there, while the caller goes
 * on. */
#ifndef LH_KERNELS_CUDA_SDPA_BUILD_H
#define LH_KERNELS_CUDA_SDPA_BUILD_H

#include "kernels/cuda/sdpa_plan.h"

typedef struct lh_sdpa_build lh_sdpa_build;

/* What came of it. A library that takes no such attention is no failure. */
typedef struct lh_sdpa_built {
    lh_sdpa_plan *plan;
    char why[256]; /* there is no plan; "": there is one */
} lh_sdpa_built;

/* Begins it, for the device of the calling thread, whose name is borrowed. The handle is in use until the wait. */
lh_status lh_sdpa_build_open(lh_sdpa_build **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape,
                             const char *device);

/* Waits for the end; borrowed. */
lh_sdpa_built *lh_sdpa_build_wait(lh_sdpa_build *build);

/* Nobody shall take the plan from the cache again. After the wait. */
void lh_sdpa_build_forget(const lh_sdpa_build *build);

/* Waits for the end. NULL is fine; what was enqueued with the plan must be done. */
void lh_sdpa_build_close(lh_sdpa_build *build);

#endif
