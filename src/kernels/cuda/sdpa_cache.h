/* sdpa_cache.h - texts of cuDNN's plans in the user's cache folder, $XDG_CACHE_HOME/longhaul or ~/.cache/longhaul, so
 * that the next process need not build them. A file is of one version of cuDNN, one device and one shape; its first
 * line says which, with a hash of the rest, and what is damaged or of something else is not taken. A folder that is
 * missing is made; where nothing can be written nothing is kept, which is no failure. */
#ifndef LH_KERNELS_CUDA_SDPA_CACHE_H
#define LH_KERNELS_CUDA_SDPA_CACHE_H

#include "base/mem.h"
#include "kernels/cuda/sdpa_plan.h"

typedef struct lh_sdpa_key {
    size_t version; /* cuDNN's */
    const char *device;
    lh_sdpa_shape shape;
} lh_sdpa_key;

/* 1 if there is a text: it is appended to *out. */
int lh_sdpa_cache_read(lh_buf *out, const lh_sdpa_key *key);

/* Replaces what is there. */
void lh_sdpa_cache_write(const lh_sdpa_key *key, const lh_buf *text);
void lh_sdpa_cache_remove(const lh_sdpa_key *key);

#endif
