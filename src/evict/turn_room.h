/* turn_room.h - the memory in which entries are ranked that are chosen by turns (turns.h). */
#ifndef LH_EVICT_TURN_ROOM_H
#define LH_EVICT_TURN_ROOM_H

#include "evict/evict_impl.h"

/* LH_SPACE_TURNS: the order of the entries of every head, how many there are, and a line of what ranks are worth. */
typedef struct lh_turn_room {
    int64_t *counts; /* [kv_count] */
    float *line;     /* [2] ranks and [2] what they are worth */
    int32_t *order;  /* [kv_count, ld] */
} lh_turn_room;

/* LH_SPACE_SECOND, for scores and their means over a pool, and LH_SPACE_TURNS. */
void lh_turn_space(const lh_space_request *request, int64_t *bytes);

lh_turn_room lh_turn_room_of(const lh_evictor *evictor);

#endif
