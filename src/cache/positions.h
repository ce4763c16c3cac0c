/* positions.h - which positions every head of a layer holds, gathered from all ranks. */
#ifndef LH_CACHE_POSITIONS_H
#define LH_CACHE_POSITIONS_H

#include "cache/arena.h"
#include "exec/heads.h"

/* On rank 0 (elsewhere empty), ascending within a head; arrays are new memory of the caller. */
typedef struct lh_positions {
    int64_t heads;
    int64_t *offsets;   /* [heads + 1] */
    int32_t *positions; /* [offsets[heads]] */
} lh_positions;

/* Collective. The arena has the lengths of the device. */
lh_status lh_positions_gather(lh_positions *out, const lh_exec *exec, const lh_heads *heads, const lh_arena *arena);
void lh_positions_clear(lh_positions *positions);

/* Ascending. */
void lh_positions_sort(int32_t *positions, int64_t n);

#endif
