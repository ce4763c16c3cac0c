/* slots.h - where entries, the numbers of slots (lh_slot_floats of ragged.h) and the positions of their entries lie,
 * for every backend. */
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

/* Entries of a head of `len` entries that another cache can begin with. */
static LH_BOTH inline int64_t lh_whole_blocks(int64_t len)
{
    return len / LH_SHARED_BLOCK * LH_SHARED_BLOCK;
}

/* Entries of head h that lie in the base. */
static LH_BOTH inline int64_t lh_parent_len(const lh_ragged *kv, int64_t h)
{
    return kv->parent.k ? lh_whole_blocks(kv->parent.len[h]) : 0;
}

/* The cache with the arrays in which slot `slot` of head h lies. Those of a stretch of slots that begins at a multiple
 * of a number that divides LH_SHARED_BLOCK, and is no longer, lie in the same. */
static LH_BOTH inline lh_ragged lh_segment_at(const lh_ragged *kv, int64_t h, int64_t slot)
{
    lh_ragged at = *kv;
    if (slot >= lh_parent_len(kv, h)) return at;
    at.k = kv->parent.k;
    at.v = kv->parent.v;
    at.positions = kv->parent.positions;
    at.bias = kv->parent.bias;
    at.offset = kv->parent.offset;
    return at;
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

/* Rows of several caches with as many heads each, one after the other: the cache of a row, whose head is its rest. */
static LH_BOTH inline const lh_ragged *lh_cache_of_row(const lh_ragged *kv, int64_t row, int64_t *head)
{
    *head = row % kv->heads;
    return kv + row / kv->heads;
}

/* Position of the entry in slot s of head h. */
static LH_BOTH inline int64_t lh_position(const lh_ragged *kv, int64_t h, int64_t s)
{
    return kv->positions ? kv->positions[kv->offset[h] + s] : s;
}

#endif
