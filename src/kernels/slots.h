/* slots.h - where the numbers of slots lie (lh_slot_floats of ragged.h), for every backend. */
#ifndef LH_KERNELS_SLOTS_H
#define LH_KERNELS_SLOTS_H

#include "base/both.h"
#include "kernels/ragged.h"

/* Number c of slot s of KV head h; the next slot's is x->step further on. */
static LH_BOTH inline float *lh_slot_at(const lh_slot_floats *x, int64_t h, int64_t s, int64_t c)
{
    return x->at + ((x->starts ? x->starts[h] : h * x->ld) + s) * x->step + c * x->next;
}

#endif
