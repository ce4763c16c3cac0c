/* The state of a whole cache at one moment, to which every question comes back. */
#include "kv/kv_impl.h"

lh_status lh_kv_snapshot(lh_kv *kv)
{
    LH_TRY(lh_kv_fetch_lens(kv));
    kv->epoch++; /* the next step saves what it changes */
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_kv_layer *layer = &kv->layers[l];
        lh_ring_forget(&layer->ring, lh_kv_device(kv));
        LH_TRY(lh_snapshot_set(&layer->snapshot, &layer->arena, lh_kv_device(kv)));
        layer->snapshot_normless = layer->normless;
    }
    kv->snapshot = kv->timeline;
    return LH_OK;
}

lh_status lh_kv_restore(lh_kv *kv)
{
    if (kv->snapshot.phase == LH_KV_EMPTY) LH_FAIL(LH_EINTERNAL, "the cache has no snapshot to go back to");
    LH_TRY(lh_kv_fetch_lens(kv));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_kv_layer *layer = &kv->layers[l];
        LH_TRY(lh_snapshot_restore(&layer->snapshot, &layer->arena, &kv->exec));
        LH_TRY(lh_ring_restore(&layer->ring, &kv->exec));
        layer->normless = layer->snapshot_normless;
        layer->latest.position = -1; /* another row may come to its position, with other entries before it */
    }
    kv->timeline = kv->snapshot;
    kv->reserved = (lh_reserved){0};
    if (!kv->timeline.budgets_made) lh_kv_make_budgets(kv, kv->prompt.tokens); /* as they were */
    LH_TRY(lh_stream_sync(kv->exec.stream));
    return LH_OK;
}
