/* slots.h - where the numbers of slots lie (lh_slot_floats of ragged.h) and the positions of their entries, for every
 * backend. */
#ifndef LH_KERNELS_SLOTS_H
#define LH_KERNELS_SLOTS_H

#include <stddef.h>

#include "base/both.h"
#include "kernels/ragged.h"

/* Number c of slot s of KV head h; the next slot's is x->step further on. */
static LH_BOTH inline float *lh_slot_at(const lh_slot_floats *x, int64_t h, int64_t s, int64_t c)
{
    return x->at + ((x->starts ? x->starts[h] : h * x->ld) + s) * x->step + c * x->next;
}

/* Positions of the entries of head h, by slot; NULL where these are the slots. */
static LH_BOTH inline const int32_t *lh_positions_of(const lh_ragged *kv, int64_t h)
{
    return kv->positions ? kv->positions + kv->offset[h] : NULL;
}

/* Biases of the entries of head h, by slot; NULL where it has none. */
static LH_BOTH inline const float *lh_bias_of(const lh_ragged *kv, int64_t h)
{
    return kv->bias ? kv->bias + kv->offset[h] : NULL;
}

/* Position of the entry in slot s of head h. */
static LH_BOTH inline int64_t lh_position(const lh_ragged *kv, int64_t h, int64_t s)
{
    return kv->positions ? kv->positions[kv->offset[h] + s] : s;
}

#endif
