/* sdpa_build.h - building a plan of attention (sdpa_plan.h) in the background, which takes seconds of a processor: a
 * thread loads the plan from the user's cache folder, or builds it and stores it there. */
#ifndef LH_KERNELS_CUDA_SDPA_BUILD_H
#define LH_KERNELS_CUDA_SDPA_BUILD_H

#include "kernels/cuda/sdpa_plan.h"

typedef struct lh_sdpa_build lh_sdpa_build;

/* The result. A library without such attention is no failure. */
typedef struct lh_sdpa_built {
    lh_sdpa_plan *plan;
    char why[256]; /* reason without a plan; "": there is a plan */
} lh_sdpa_built;

/* Starts the build for the device of the calling thread; `device`, its name, is borrowed. The handle is in use until
 * the wait. */
lh_status lh_sdpa_build_open(lh_sdpa_build **out, const lh_sdpa_place *place, const lh_sdpa_shape *shape,
                             const char *device);

/* Waits for the end; the result is borrowed. */
lh_sdpa_built *lh_sdpa_build_wait(lh_sdpa_build *build);

/* Removes the plan from the cache. After the wait. */
void lh_sdpa_build_forget(const lh_sdpa_build *build);

/* Waits for the end. NULL is fine; work enqueued with the plan must be done. */
void lh_sdpa_build_close(lh_sdpa_build *build);

#endif
