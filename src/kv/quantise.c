/* quantise.c - a cache of 8 bits: the prompt is read with entries of f32 or bf16, and the entries that a layer keeps
 * are quantised at the end of its prefill, after scores, selection and fit. So the keep sets and the logits of a prompt
 * do not depend on it. Evictions of codes move codes and scales, and round nothing again but values that are fitted
 * again; scores and fits that read keys or values read widened ones. */
#include "evict/counted_rows.h"
#include "kv/kv_impl.h"

lh_status lh_kv_quantise(lh_kv *kv, int64_t layer)
{
    for (int64_t l = 0; l <= layer; l++) {
        if (lh_kv_competes(kv, l) && !lh_kv_competition_ended(kv)) continue;
        LH_TRY(lh_arena_convert(&kv->layers[l].arena, &kv->exec, LH_Q8));
        /* norms of values are the norms of their codes, as after a cache is loaded */
        if (kv->stats.norms >= 0) kv->layers[l].entries_without_norm = kv->prompt.tokens;
    }
    return LH_OK;
}

static lh_status reserve(lh_kv *kv, int64_t slots)
{
    lh_ragged *view = &kv->widened.view;
    const int64_t bytes = slots * kv->shape.head_dim * lh_dtype_bytes(kv->shape.types.prompt);
    if (slots <= kv->widened.slots) return LH_OK;
    lh_kv_free_widened(kv);
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &view->k, bytes, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &view->v, bytes, LH_MEM_WORK));
    kv->widened.slots = slots;
    return LH_OK;
}

int lh_kv_widens_in_steps(const lh_kv *kv)
{
    return kv->kept_type == LH_Q8 && kv->numbers.score.running && kv->shape.heads.split;
}

/* True if an eviction of the layer while decoding reads widened entries. */
static int widens_to_evict(const lh_kv *kv, int64_t layer)
{
    const int counted = !lh_kv_slides(&kv->shape, layer) && lh_counted_rows_latest(&kv->numbers, &kv->shape.heads);
    const int reads = lh_scores_read_entries(&kv->numbers, counted) || lh_methods_have(&kv->numbers.methods, LH_REFITS);
    return kv->kept_type == LH_Q8 && lh_evicts_again(&kv->numbers) && reads;
}

lh_status lh_kv_reserve_widened(lh_kv *kv)
{
    int64_t slots = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (widens_to_evict(kv, l) || lh_kv_widens_in_steps(kv)) slots = lh_max_i64(slots, kv->layers[l].arena.slots);
    return reserve(kv, slots);
}

void lh_kv_free_widened(lh_kv *kv)
{
    lh_device_free(lh_kv_device(kv), kv->widened.view.k);
    lh_device_free(lh_kv_device(kv), kv->widened.view.v);
    kv->widened = (lh_widened){0};
}

const lh_ragged *lh_kv_widen(lh_kv *kv, const lh_arena *arena, int64_t more)
{
    lh_ragged *view = &kv->widened.view;
    if (arena->view.type != LH_Q8) return &arena->view;
    LH_LATCH(&kv->exec, reserve(kv, arena->slots));
    void *k = view->k, *v = view->v;
    *view = arena->view;
    view->type = kv->shape.types.prompt;
    view->k = k;
    view->v = v;
    view->k_scale = view->v_scale = NULL;
    LH_LATCH(&kv->exec, lh_convert_entries(&kv->exec, view, arena, more));
    return view;
}

void lh_kv_narrow_values(lh_kv *kv, lh_arena *arena)
{
    if (arena->view.type == LH_Q8) LH_LATCH(&kv->exec, lh_convert_values(&kv->exec, arena, &kv->widened.view));
}
