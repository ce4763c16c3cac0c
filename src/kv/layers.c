/* A sequence begins: the plans of its layers. And what an eviction, or rows that pass, find of a layer at a time. */
#include "kv/kv_impl.h"

lh_device *lh_kv_device(const lh_kv *kv)
{
    return lh_exec_device(&kv->exec);
}

void lh_kv_make_budgets(lh_kv *kv, int64_t seen)
{
    const lh_kv_shape *s = &kv->shape;
    lh_policy_layers(&kv->numbers,
                     &(lh_layers_request){.layers = s->layers,
                                          .seen = seen,
                                          .window = s->window,
                                          .sliding = s->sliding,
                                          .profile = lh_profiles_find(s->profiles, LH_PROFILE_OF_LAYERS,
                                                                      kv->policy.budgets.layer_profile),
                                          .shares = s->layer_shares},
                     kv->arrays.budgets);
    kv->timeline.budgets_made = kv->numbers.evicts && kv->numbers.budget < seen;
}

/* Of the entries of a layer, at the end of the prompt or later. */
static int fits_bias(const lh_kv *kv, int64_t layer)
{
    const lh_policy_methods *methods = &kv->numbers.methods;
    return lh_fits_bias(methods) && (kv->layers[layer].plan.scored || lh_methods_have(methods, LH_REFITS));
}

lh_status lh_kv_begin_layers(lh_kv *kv, const lh_prompt *prompt)
{
    const lh_kv_shape *s = &kv->shape;
    lh_ring_shape ring;
    if (kv->timeline.phase != LH_KV_EMPTY)
        LH_FAIL(LH_EINTERNAL, "the cache is not empty: it holds %lld tokens", (long long)kv->timeline.seen);
    kv->prompt = *prompt;
    kv->numbers = lh_policy_fix(&kv->policy, prompt->tokens);
    lh_evictor_begin(kv->evictor, &kv->numbers, prompt->tokens);
    lh_kv_make_budgets(kv, lh_max_i64(prompt->tokens, kv->numbers.budget + kv->numbers.every));
    for (int64_t l = 0; l < s->layers; l++) kv->layers[l].plan.later = kv->arrays.budgets[l];
    lh_kv_make_budgets(kv, prompt->tokens);
    ring = lh_kv_ring_shape(s, &kv->numbers);
    for (int64_t l = 0; l < s->layers; l++) {
        lh_layer_request request = {
            .layer = l, .budget = kv->arrays.budgets[l], .later = kv->layers[l].plan.later, .prompt = *prompt};
        kv->layers[l].plan = lh_kv_layer_plan(s, &kv->numbers, &request);
        kv->layers[l].arena.form.has_bias = fits_bias(kv, l);
        kv->layers[l].latest.position = -1;
        if (ring.rows) LH_TRY(lh_ring_alloc(&kv->layers[l].ring, lh_kv_device(kv), &ring));
    }
    if (lh_observes_again(&kv->numbers)) LH_TRY(lh_evictor_alloc_rows(kv->evictor, 0));
    kv->timeline.phase = LH_KV_PREFILL;
    return LH_OK;
}

const float *lh_kv_score_weights(const lh_kv_shape *s, int64_t layer)
{
    const int64_t numbers = s->heads.kv_count * lh_learnt_numbers(s->head_dim);
    return s->score_weights ? s->score_weights + layer * numbers : NULL;
}

lh_evict_job lh_kv_job(lh_kv *kv, int64_t layer, const lh_arena *arena, int64_t seen)
{
    const lh_kv_shape *s = &kv->shape;
    int slides = lh_kv_slides(s, layer);
    return (lh_evict_job){.phase = kv->timeline.phase == LH_KV_PREFILL ? LH_EVICT_PREFILL : LH_EVICT_DECODE,
                          .layer = {.index = layer,
                                    .window = slides ? s->window : 0,
                                    .projection = s->projections ? &s->projections[layer] : NULL,
                                    .rotation = s->rotations ? &s->rotations[layer] : NULL,
                                    .score_weights = lh_kv_score_weights(s, layer)},
                          .entries = &arena->view,
                          .offset = arena->offset,
                          .seen = seen,
                          .visible_from = lh_kv_visible_from(s, layer, seen),
                          .normless = &kv->layers[layer].entries_without_norm};
}
