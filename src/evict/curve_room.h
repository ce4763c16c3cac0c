/* curve_room.h - the memory in which curves of losses are made (loss_curves.h). */
#ifndef LH_EVICT_CURVE_ROOM_H
#define LH_EVICT_CURVE_ROOM_H

#include "evict/evict_impl.h"
#include "evict/gains.h"

/* LH_SPACE_CURVES. A block is a cache of one head: some of its entries in their order. */
typedef struct lh_curve_room {
    int64_t *counts; /* [2, kv_count]: entries that compete, and that are protected */
    int32_t *order;  /* [2, kv_count, ld]: their slots */
    float *losses;   /* [kv_count, LH_CURVE_POINTS] */
    float *energies; /* [kv_heads of the model]: squares of what rows put out over all entries, summed */
    float *ranks;    /* [LH_CURVE_POINTS] */
    float *gains;    /* [kv_count, LH_CURVE_POINTS] */
    float *sums; /* [LH_CURVE_POINTS, head_dim + 1, group x rows]: of the entries up to a point, from the one before */
    void *k, *v; /* of the block */
    int32_t *positions;
    float *bias;
    int64_t *offset, *len;
    void *work; /* of a fit */
} lh_curve_room;

/* LH_SPACE_ENTRY_GAINS and LH_SPACE_CURVES, for at most lh_policy_reference_rows rows. */
void lh_curve_space(const lh_space_request *request, int64_t *bytes);

lh_curve_room lh_curve_room_of(const lh_evictor *evictor, int64_t rows);

#endif
