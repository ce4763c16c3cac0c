/* slot_positions.h - keys that are rotated by their slots instead of their positions (StreamingLLM, arXiv 2309.17453):
 * the rotations of kept entries have no gaps. The arena holds unrotated keys; for each attention the keys of a layer
 * are rotated into a buffer. */
#ifndef LH_CACHE_SLOT_POSITIONS_H
#define LH_CACHE_SLOT_POSITIONS_H

#include "cache/arena.h"
#include "exec/exec.h"

/* The rotated keys of the layer under way. */
typedef struct lh_slot_positions {
    lh_arena arena;   /* the arena of that layer with other keys, which are all that it owns */
    float *scales;    /* device, [slots]: of keys of q8 */
    float *keys;      /* device, [longest, head_dim] */
    int32_t *numbers; /* device, [longest]: 0, 1, 2, … */
    float *inv_freq;  /* device */
    int64_t slots, longest;
} lh_slot_positions;

void lh_slot_positions_free(lh_slot_positions *s, lh_device *device);

/* Allocates memory for an arena of `slots` slots with rows at slots below `longest`. */
lh_status lh_slot_positions_reserve(lh_slot_positions *s, const lh_exec *exec, const lh_arena_shape *shape,
                                    int64_t slots, int64_t longest);

/* Undoes the rotation of the keys of an arena by positions, in place. */
lh_status lh_slot_positions_unrotate(lh_slot_positions *s, const lh_exec *exec, lh_arena *arena,
                                     const lh_rotation *rotation);

/* s->arena = `arena`, with rotated keys until the next call. Its heads hold `more` entries beyond the host's lengths,
 * and the first such entry is rotated by slot `next` in every head. */
lh_status lh_slot_positions_rotate(lh_slot_positions *s, const lh_exec *exec, const lh_arena *arena,
                                   const lh_rotation *rotation, int64_t next, int64_t more);

#endif
