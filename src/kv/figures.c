#include "kv/figures.h"

#include "kv/kv_impl.h"

lh_cache_size lh_kv_cache_size(const lh_kv_shape *shape)
{
    return (lh_cache_size){.layers = shape->layers,
                           .kv_heads = shape->heads.kv_heads,
                           .entry_bytes = lh_entry_bytes(shape->types.evicted, shape->head_dim),
                           .window = shape->window,
                           .sliding = shape->sliding};
}

int64_t lh_kv_seen(const lh_kv *kv)
{
    return kv->timeline.seen;
}

int64_t lh_kv_layer_budget(const lh_kv *kv, int64_t layer)
{
    return kv->arrays.budgets[layer];
}

const lh_ragged *lh_kv_view(const lh_kv *kv, int64_t layer)
{
    return &kv->layers[layer].arena.view;
}

static int64_t sum(const int64_t *lens, int64_t heads)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < heads; h++) entries += lens[h];
    return entries;
}

static int64_t held_bytes(const lh_kv_layer *layer)
{
    int64_t ring = lh_ring_bytes(&layer->ring.shape);
    return lh_arena_held_bytes(&layer->arena) + (layer->ring.q ? ring : 0);
}

lh_status lh_kv_stats_of(lh_kv *kv, lh_kv_stats *out)
{
    const lh_heads *heads = &kv->shape.heads;
    lh_kv_stats s = {.entries_seen = kv->timeline.seen * heads->kv_count * kv->shape.layers,
                     .summary_bytes = lh_evict_summary_bytes(kv->evictor),
                     .evictions = kv->timeline.evictions,
                     .evict_s = kv->evict_s + (kv->origin ? kv->origin->evict_s : 0),
                     .bytes_capacity = lh_arena_held_bytes(&kv->scratch)};
    LH_TRY(lh_kv_wait_lens(kv));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_kv_layer *layer = &kv->layers[l];
        s.entries_held += lh_arena_entries(&layer->arena);
        s.entries_counted += sum(layer->arena.len + heads->counted_first - heads->kv_first, heads->counted_count);
        s.bytes_capacity += held_bytes(layer);
    }
    s.bytes_held = s.entries_held * lh_entry_bytes(kv->kept_type, kv->shape.head_dim);
    s.bytes_full = s.entries_seen * lh_entry_bytes(kv->shape.types.full, kv->shape.head_dim);
    *out = s;
    return LH_OK;
}
