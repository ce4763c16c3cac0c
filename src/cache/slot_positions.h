/* slot_positions.h - keys that are rotated by the slots where they lie instead of by their positions (StreamingLLM,
 * arXiv 2309.17453): what is kept stands close together, whatever was lost between. The arena holds the keys as they
 * were before their rotation; for each attention those of one layer are rotated anew into a buffer. */
#ifndef LH_CACHE_SLOT_POSITIONS_H
#define LH_CACHE_SLOT_POSITIONS_H

#include "cache/arena.h"
#include "exec/rotation.h"

/* The rotated keys of the layer under way. */
typedef struct lh_slot_positions {
    lh_arena arena;   /* that layer's, with other keys: all that it owns */
    float *keys;      /* device, [longest, head_dim] */
    int32_t *numbers; /* device, [longest]: 0, 1, 2, … */
    float *inv_freq;  /* device */
    int64_t slots, longest;
} lh_slot_positions;

void lh_slot_positions_free(lh_slot_positions *s, lh_device *device);

/* Room for an arena of `slots` slots whose rows stand at slots below `longest`. */
lh_status lh_slot_positions_reserve(lh_slot_positions *s, const lh_exec *exec, const lh_arena_shape *shape,
                                    int64_t slots, int64_t longest);

/* The keys of an arena as they were before their rotation by positions, in place. */
lh_status lh_slot_positions_unrotate(lh_slot_positions *s, const lh_exec *exec, lh_arena *arena,
                                     const lh_rotation *rotation);

/* The view of an arena whose heads hold `more` entries beyond the host's lengths, with keys rotated so that the first
 * of those stands at slot `next` in every head; until the next call. */
lh_status lh_slot_positions_rotate(lh_slot_positions *s, const lh_exec *exec, const lh_arena *arena,
                                   const lh_rotation *rotation, int64_t next, int64_t more);

#endif
