#include "kv/kv.h"

#include <string.h>
#include <time.h>

#include "kv/kv_impl.h"

double lh_kv_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

lh_device *lh_kv_device(const lh_kv *kv)
{
    return lh_exec_device(&kv->exec);
}

static lh_status init_arrays(lh_kv_arrays *a, const lh_kv_shape *shape)
{
    const lh_heads *h = &shape->heads;
    LH_TRY(lh_calloc(&a->budgets, shape->layers + 3 * h->kv_heads + 1 + h->kv_count, sizeof *a->budgets));
    a->room = a->budgets + shape->layers;
    a->lens = a->room + h->kv_heads;
    a->offsets = a->lens + h->kv_heads;
    a->kept = a->offsets + h->kv_heads + 1;
    return lh_gather_init(&a->gather, h->ranks);
}

/* Arenas without slots; offsets and lengths of all of them lie in one block. */
static lh_status init_arenas(lh_kv *kv)
{
    const lh_kv_shape *s = &kv->shape;
    lh_arena_shape shape = lh_kv_arena_shape(s);
    int64_t heads = s->heads.kv_count;
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &kv->lens.device, lh_kv_blocks_bytes(s), LH_MEM_KV));
    LH_TRY(lh_device_alloc_host(lh_kv_device(kv), &kv->lens.host, lh_kv_blocks_bytes(s)));
    LH_TRY(lh_calloc(&kv->layers, s->layers, sizeof *kv->layers));
    for (int64_t l = 0; l < s->layers; l++)
        LH_TRY(lh_arena_init(&kv->layers[l].arena, &shape, kv->lens.device + l * 2 * heads,
                             lh_kv_form_of(s, &kv->numbers, l)));
    LH_TRY(lh_arena_init(&kv->scratch, &shape, kv->lens.device + s->layers * 2 * heads,
                         lh_kv_scratch_form(s, &kv->numbers)));
    return LH_OK;
}

lh_status lh_kv_open(lh_kv **out, const lh_exec *exec, const lh_kv_shape *shape, const lh_policy *policy)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    lh_evict_shape evict = lh_kv_evict_shape(shape);
    LH_TRY_DONE(lh_calloc(&kv, 1, sizeof *kv));
    kv->exec = *exec;
    kv->shape = *shape;
    kv->policy = *policy;
    kv->numbers = lh_policy_fix(policy, 0);
    kv->stats = lh_entry_stats_of(&kv->numbers, &shape->heads);
    if ((policy->select.kind == LH_SELECT_TWO_STAGE && !shape->projections) ||
        ((policy->score.source == LH_SCORE_EXPECTED || lh_kv_uses_slots(&kv->numbers)) && !shape->rotations))
        LH_FAIL_DONE(LH_EINTERNAL, "policy '%s' needs projections or rotations of the model, which are not at hand",
                     policy->name);
    LH_TRY_DONE(lh_policy_check_question(policy));
    LH_TRY_DONE(lh_profiles_check(shape->profiles, policy, shape->layers, shape->heads.kv_heads));
    LH_TRY_DONE(init_arrays(&kv->arrays, shape));
    LH_TRY_DONE(init_arenas(kv));
    LH_TRY_DONE(
        lh_evictor_open(&kv->evictor, exec, &evict, lh_profiles_find(shape->profiles, policy->budgets.head_profile)));
    *out = kv;
    kv = NULL;
done:
    lh_kv_close(kv);
    return st;
}

static void close_layer(lh_kv_layer *layer, lh_device *device)
{
    lh_snapshot_clear(&layer->snapshot, device);
    lh_ring_free(&layer->ring, device);
    lh_latest_row_free(&layer->latest, device);
    lh_arena_clear(&layer->arena, device);
}

void lh_kv_close(lh_kv *kv)
{
    if (!kv) return;
    lh_device *device = lh_kv_device(kv);
    if (kv->shared.leader) lh_kv_take_back(kv);                /* nothing of the leader's is freed here */
    if (kv->lens.stale) (void)lh_stream_sync(kv->exec.stream); /* they may still be on their way */
    (void)lh_exec_take(&kv->exec);
    for (int64_t l = 0; kv->layers && l < kv->shape.layers; l++) close_layer(&kv->layers[l], device);
    lh_arena_clear(&kv->scratch, device);
    lh_evictor_close(kv->evictor);
    lh_slot_positions_free(&kv->slots, device);
    lh_kv_close_competition(kv);
    lh_device_free(device, kv->lens.device);
    lh_device_free_host(device, kv->lens.host);
    lh_gather_clear(&kv->arrays.gather);
    lh_free(kv->arrays.budgets);
    lh_free(kv->shared.followers);
    lh_free(kv->layers);
    lh_free(kv);
}

void lh_kv_listen(lh_kv *kv, const lh_kv_listener *listener)
{
    kv->listener = *listener;
    lh_evictor_listen(kv->evictor, &(lh_evict_listener){.self = listener->self, .scored = listener->scored});
}

void lh_kv_seed(lh_kv *kv, uint64_t seed, uint32_t request)
{
    lh_evictor_seed(kv->evictor, seed, request);
}

void lh_kv_make_budgets(lh_kv *kv, int64_t seen)
{
    const lh_kv_shape *s = &kv->shape;
    lh_policy_layers(&kv->numbers,
                     &(lh_layers_request){.layers = s->layers,
                                          .seen = seen,
                                          .window = s->window,
                                          .sliding = s->sliding,
                                          .profile = lh_profiles_find(s->profiles, kv->policy.budgets.layer_profile)},
                     kv->arrays.budgets);
    kv->timeline.budgets_made = kv->numbers.evicts && kv->numbers.budget < seen;
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
    lh_kv_make_budgets(kv, prompt->tokens);
    ring = lh_kv_ring_shape(s, &kv->numbers);
    for (int64_t l = 0; l < s->layers; l++) {
        lh_layer_request request = {.layer = l, .budget = kv->arrays.budgets[l], .prompt = *prompt};
        kv->layers[l].plan = lh_kv_layer_plan(s, &kv->numbers, &request);
        kv->layers[l].latest.position = -1;
        if (ring.rows) LH_TRY(lh_ring_alloc(&kv->layers[l].ring, lh_kv_device(kv), &ring));
    }
    if (lh_observes_again(&kv->numbers)) LH_TRY(lh_evictor_alloc_rows(kv->evictor, 0));
    kv->timeline.phase = LH_KV_PREFILL;
    return LH_OK;
}

lh_evict_job lh_kv_job(lh_kv *kv, int64_t layer, const lh_arena *arena, int64_t seen)
{
    const lh_kv_shape *s = &kv->shape;
    int slides = lh_kv_slides(s, layer);
    return (lh_evict_job){.phase = kv->timeline.phase == LH_KV_PREFILL ? LH_EVICT_PREFILL : LH_EVICT_DECODE,
                          .layer = {.index = layer,
                                    .window = slides ? s->window : 0,
                                    .projection = s->projections ? &s->projections[layer] : NULL,
                                    .rotation = s->rotations ? &s->rotations[slides] : NULL},
                          .entries = &arena->view,
                          .offset = arena->offset,
                          .seen = seen,
                          .visible_from = lh_kv_visible_from(s, layer, seen),
                          .normless = &kv->layers[layer].normless};
}
