/* A second cache that goes on from the state of another one. Layers whose old entries stay as they are while decoding
 * share them: only those after the last whole unit (kernels/ragged.h) are copied, and what is appended is the fork's
 * own. Those that evict or drop entries, or count what they receive, have copies of all. */
#include <assert.h>

#include "kv/kv_impl.h"

static lh_entries_kind entries_kind(const lh_kv *kv, const lh_arena *from, int64_t l)
{
    const int changes = lh_evicts_again(&kv->numbers) || lh_kv_slides(&kv->shape, l) || lh_kv_uses_slots(&kv->numbers);
    return changes || from->form.stats || from->parent ? LH_ENTRIES_COPIED : LH_ENTRIES_SHARED;
}

static lh_status fork_layer(lh_kv *kv, const lh_kv *from, int64_t l)
{
    const lh_kv_layer *source = &from->layers[l];
    lh_kv_layer *layer = &kv->layers[l];
    const lh_layer_request request = {.layer = l, .budget = from->arrays.budgets[l], .prompt = kv->prompt};
    int64_t *caps = kv->arrays.kept;
    kv->arrays.budgets[l] = request.budget;
    layer->normless = source->normless;
    for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
        caps[h] = source->arena.len[h] + lh_kv_slack(&kv->shape, &kv->numbers, &request, source->arena.len[h]);
    LH_TRY(lh_arena_copy(&layer->arena, &kv->exec, &source->arena, caps, entries_kind(kv, &source->arena, l)));
    if (layer->ring.q)
        LH_TRY(lh_stream_copy(kv->exec.stream, layer->ring.q, source->ring.q, lh_ring_bytes(&layer->ring.shape),
                              LH_COPY_ON_DEVICE));
    return LH_OK;
}

lh_status lh_kv_fork(lh_kv *kv, lh_kv *from, int64_t more)
{
    if (from->timeline.phase != LH_KV_DECODE) LH_FAIL(LH_EINTERNAL, "a cache without a prompt cannot be forked");
    LH_TRY(lh_kv_fetch_lens(from));
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = from->prompt.tokens, .more = more}));
    kv->origin = from;
    from->forks++;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(fork_layer(kv, from, l));
    kv->timeline = from->timeline;
    return LH_OK;
}

static void leave_origin(lh_kv *kv)
{
    if (kv->origin) kv->origin->forks--;
    kv->origin = NULL;
}

lh_status lh_kv_part(lh_kv *kv)
{
    kv->epoch++;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_arena_part(&kv->layers[l].arena, &kv->exec));
    leave_origin(kv);
    return LH_OK;
}

void lh_kv_end_fork(lh_kv *kv)
{
    assert(!kv->forks); /* they share its entries */
    leave_origin(kv);
}
