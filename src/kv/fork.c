/* A second cache that goes on from the state of another one. */
#include <string.h>

#include "kv/kv_impl.h"

static lh_status fork_layer(lh_kv *kv, const lh_kv *from, int64_t l)
{
    const lh_kv_layer *source = &from->layers[l];
    lh_kv_layer *layer = &kv->layers[l];
    lh_arena *arena = &layer->arena;
    const lh_layer_request request = {.layer = l, .budget = from->arrays.budgets[l], .prompt = kv->prompt};
    int64_t *caps = kv->arrays.kept;
    kv->arrays.budgets[l] = request.budget;
    layer->normless = source->normless;
    for (int64_t h = 0; h < arena->view.heads; h++)
        caps[h] = source->arena.len[h] + lh_kv_slack(&kv->shape, &kv->numbers, &request, source->arena.len[h]);
    LH_TRY(lh_arena_alloc(arena, &kv->exec, caps));
    for (int64_t h = 0; h < arena->view.heads; h++) {
        const lh_slots here = {&arena->view, arena->offset[h]}, there = {&source->arena.view, source->arena.offset[h]};
        LH_TRY(lh_copy_entries(&kv->exec, &here, &there, source->arena.len[h]));
        LH_TRY(lh_copy_stats(&kv->exec, &here, &there, source->arena.len[h]));
        arena->len[h] = source->arena.len[h];
    }
    if (layer->ring.q)
        LH_TRY(lh_stream_copy(kv->exec.stream, layer->ring.q, source->ring.q, lh_ring_bytes(&layer->ring.shape),
                              LH_COPY_ON_DEVICE));
    return lh_arena_push_len(arena, &kv->exec);
}

lh_status lh_kv_fork(lh_kv *kv, lh_kv *from, int64_t more)
{
    if (from->timeline.phase != LH_KV_DECODE) LH_FAIL(LH_EINTERNAL, "a cache without a prompt cannot be forked");
    LH_TRY(lh_kv_fetch_lens(from));
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = from->prompt.tokens, .more = more}));
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(fork_layer(kv, from, l));
    kv->timeline = from->timeline;
    return LH_OK;
}
