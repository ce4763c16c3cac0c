/* positions.h - which positions every head of a layer holds, gathered from all ranks. */
#ifndef LH_KV_POSITIONS_H
#define LH_KV_POSITIONS_H

#include "kv/kv.h"

/* On rank 0 (elsewhere empty), ascending within a head; arrays are new memory of the caller. */
typedef struct lh_kv_positions {
    int64_t heads;
    int64_t *offsets;   /* [heads + 1] */
    int32_t *positions; /* [offsets[heads]] */
} lh_kv_positions;

/* Collective. */
lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_kv_positions *out);
void lh_kv_positions_clear(lh_kv_positions *positions);

/* The order of positions (int32), for qsort. */
int lh_kv_by_position(const void *a, const void *b);

#endif
