#include <string.h>

#include "kv/kv_impl.h"

static void free_saved(lh_kv *kv, lh_saved *saved)
{
    lh_device_free(lh_kv_device(kv), saved->view.k);
    lh_device_free(lh_kv_device(kv), saved->view.v);
    lh_device_free(lh_kv_device(kv), saved->view.positions);
    lh_device_free(lh_kv_device(kv), saved->view.stats);
    saved->view = (lh_ragged){0};
    saved->taken = 0;
}

static void free_ring(lh_kv *kv, lh_ring *ring)
{
    lh_device_free(lh_kv_device(kv), ring->saved);
    ring->saved = NULL;
}

void lh_kv_drop_saved(lh_kv *kv, int64_t layer)
{
    lh_saved *saved = &kv->layers[layer].saved;
    free_saved(kv, saved);
    free_ring(kv, &kv->layers[layer].ring);
    lh_free(saved->len);
    saved->len = NULL;
}

lh_status lh_kv_mark(lh_kv *kv)
{
    int64_t heads = kv->shape.heads.kv_count;
    LH_TRY(lh_kv_fetch_lens(kv));
    kv->moves++; /* the next step saves what it changes */
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_saved *saved = &kv->layers[l].saved;
        free_saved(kv, saved);
        free_ring(kv, &kv->layers[l].ring);
        if (!saved->len) LH_TRY(lh_calloc(&saved->len, heads, sizeof *saved->len));
        memcpy(saved->len, kv->layers[l].pool.len, (size_t)heads * sizeof *saved->len);
        saved->fresh = kv->layers[l].fresh;
    }
    kv->marked = kv->clock;
    kv->is_marked = 1;
    return LH_OK;
}

static int64_t entries_of(const lh_saved *saved, int64_t heads)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < heads; h++) entries += saved->len[h];
    return entries;
}

/* Statistics of all entries of the mark, between the pool and where they are saved. */
typedef enum direction { SAVE, RESTORE } direction;
static lh_status move_stats(lh_kv *kv, int64_t layer, direction to)
{
    const lh_pool *pool = &kv->layers[layer].pool;
    const lh_saved *saved = &kv->layers[layer].saved;
    int64_t at = 0;
    for (int64_t h = 0; h < pool->view.heads; at += saved->len[h], h++) {
        lh_slots there = {&saved->view, at}, here = {&pool->view, pool->offset[h]};
        LH_TRY(
            lh_stats_copy(kv->place.stream, to == SAVE ? &there : &here, to == SAVE ? &here : &there, saved->len[h]));
    }
    return LH_OK;
}

lh_status lh_kv_save_stats(lh_kv *kv, int64_t layer)
{
    const lh_pool *pool = &kv->layers[layer].pool;
    lh_saved *saved = &kv->layers[layer].saved;
    int64_t floats = pool->form.stats;
    if (!kv->is_marked || !floats || saved->view.stats) return LH_OK;
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &saved->view.stats,
                           entries_of(saved, pool->view.heads) * floats * (int64_t)sizeof(float), LH_MEM_KV));
    saved->view.stat_count = floats;
    LH_TRY(move_stats(kv, layer, SAVE));
    return LH_OK;
}

lh_status lh_kv_save_layer(lh_kv *kv, int64_t layer)
{
    lh_status st = LH_OK;
    const lh_pool *pool = &kv->layers[layer].pool;
    lh_saved *saved = &kv->layers[layer].saved;
    int64_t entries, entry = pool->view.head_dim * lh_dtype_bytes(pool->view.type), at = 0;
    if (!kv->is_marked || saved->taken) goto done;
    LH_TRY_DONE(lh_kv_save_stats(kv, layer));
    entries = entries_of(saved, pool->view.heads);
    saved->view.type = pool->view.type;
    saved->view.heads = pool->view.heads;
    saved->view.head_dim = pool->view.head_dim;
    LH_TRY_DONE(lh_device_alloc(lh_kv_device(kv), &saved->view.k, entries * entry, LH_MEM_KV));
    LH_TRY_DONE(lh_device_alloc(lh_kv_device(kv), &saved->view.v, entries * entry, LH_MEM_KV));
    LH_TRY_DONE(
        lh_device_alloc(lh_kv_device(kv), &saved->view.positions, entries * (int64_t)sizeof(int32_t), LH_MEM_KV));
    for (int64_t h = 0; h < pool->view.heads; h++) {
        LH_TRY_DONE(lh_entries_copy(kv->place.stream, &(lh_slots){&saved->view, at},
                                    &(lh_slots){&pool->view, pool->offset[h]}, saved->len[h]));
        at += saved->len[h];
    }
    saved->taken = 1;
done:
    if (st != LH_OK) free_saved(kv, saved);
    return st;
}

lh_status lh_kv_save_ring(lh_kv *kv, int64_t layer)
{
    lh_ring *ring = &kv->layers[layer].ring;
    int64_t bytes = lh_kv_ring_bytes(&kv->shape, &kv->fixed);
    if (!kv->is_marked || ring->saved) return LH_OK;
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &ring->saved, bytes, LH_MEM_KV));
    LH_TRY(lh_stream_copy(kv->place.stream, ring->saved, ring->q, bytes, LH_COPY_ON_DEVICE));
    return LH_OK;
}

lh_status lh_kv_rewind(lh_kv *kv)
{
    if (!kv->is_marked) LH_FAIL(LH_EINTERNAL, "the cache has no mark to go back to");
    LH_TRY(lh_kv_fetch_lens(kv));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_pool *pool = &kv->layers[l].pool;
        const lh_saved *saved = &kv->layers[l].saved;
        int64_t at = 0;
        for (int64_t h = 0; h < pool->view.heads; h++) {
            if (saved->taken)
                LH_TRY(lh_entries_copy(kv->place.stream, &(lh_slots){&pool->view, pool->offset[h]},
                                       &(lh_slots){&saved->view, at}, saved->len[h]));
            at += saved->len[h];
            pool->len[h] = saved->len[h];
        }
        if (saved->view.stats) LH_TRY(move_stats(kv, l, RESTORE));
        kv->layers[l].fresh = saved->fresh;
        kv->layers[l].latest.row = -1; /* another row may come to its position, with other entries before it */
        LH_TRY(lh_pool_push_len(pool, kv->place.stream));
        const lh_ring *ring = &kv->layers[l].ring;
        if (ring->saved)
            LH_TRY(lh_stream_copy(kv->place.stream, ring->q, ring->saved, lh_kv_ring_bytes(&kv->shape, &kv->fixed),
                                  LH_COPY_ON_DEVICE));
    }
    kv->clock = kv->marked;
    kv->assured = kv->assured_again = 0;
    if (!kv->clock.budgets_made) lh_kv_make_budgets(kv, kv->prompt.tokens); /* as they were */
    LH_TRY(lh_stream_sync(kv->place.stream));
    return LH_OK;
}
