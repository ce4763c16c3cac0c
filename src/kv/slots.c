/* Slot positions along the timeline: the slot that rotates the next row, and workspace for the rotation. The keys
 * themselves: cache/slot_positions.h. */
#include "kv/kv_impl.h"

const lh_rotation *lh_kv_rotation(const lh_kv *kv, int64_t layer)
{
    return kv->shape.rotations ? &kv->shape.rotations[layer] : NULL;
}

int lh_kv_rotates_by_slot(const lh_kv *kv)
{
    return lh_kv_uses_slots(&kv->numbers) && kv->timeline.phase == LH_KV_DECODE;
}

/* Heads that chose their entries for themselves lose them one by one where they slide out of sight, and come to hold
 * more and less: there the row stands after a whole window for all of them. */
static int64_t next_slot(const lh_kv *kv, int64_t layer)
{
    return lh_kv_slides(&kv->shape, layer) ? kv->shape.window - 1 : kv->layers[layer].arena.len[0];
}

int64_t lh_kv_rotary_position(const lh_kv *kv, int64_t layer, int64_t position)
{
    if (!lh_kv_rotates_by_slot(kv) || !kv->shape.heads.kv_count) return position;
    return next_slot(kv, layer) + position - kv->timeline.seen;
}

lh_status lh_kv_reserve_slots(lh_kv *kv, int64_t tokens)
{
    lh_arena_shape shape = lh_kv_arena_shape(&kv->shape);
    shape.type = kv->kept_type;
    int64_t slots = 0, longest = 1;
    if (!lh_kv_uses_slots(&kv->numbers) || !shape.heads) return LH_OK;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_arena *arena = &kv->layers[l].arena;
        slots = lh_max_i64(slots, arena->slots);
        longest = lh_max_i64(longest, lh_max_i64(next_slot(kv, l) + tokens, lh_arena_longest_cap(arena)));
    }
    return lh_slot_positions_reserve(&kv->slots, &kv->exec, &shape, slots, longest);
}

lh_status lh_kv_attended(lh_kv *kv, int64_t layer, int64_t seen, lh_ragged **view)
{
    lh_arena *arena = &kv->layers[layer].arena;
    *view = &arena->view;
    if (!lh_kv_uses_slots(&kv->numbers)) return LH_OK;
    LH_TRY(lh_slot_positions_rotate(&kv->slots, &kv->exec, arena, lh_kv_rotation(kv, layer), next_slot(kv, layer),
                                    seen - kv->timeline.seen));
    *view = &kv->slots.arena.view;
    return LH_OK;
}
