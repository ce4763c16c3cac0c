/* Opening and closing a cache. */
#include "kv/kv_impl.h"

static lh_status init_arrays(lh_kv_arrays *a, const lh_kv_shape *shape, lh_device *device)
{
    const lh_heads *h = &shape->heads;
    LH_TRY(lh_calloc(&a->budgets, shape->layers + (LH_EVICT_AT_ONCE + 1) * h->kv_heads, sizeof *a->budgets));
    a->room = a->budgets + shape->layers;
    a->lens = a->room + LH_EVICT_AT_ONCE * h->kv_heads;
    LH_TRY(lh_device_alloc_host(device, &a->kept, h->kv_count * (int64_t)sizeof *a->kept));
    return lh_gather_init(&a->gather, h->ranks);
}

/* Arenas without slots; offsets and lengths of all of them lie in one block. */
static lh_status init_arenas(lh_kv *kv)
{
    const lh_kv_shape *s = &kv->shape;
    lh_arena_shape shape = lh_kv_arena_shape(s);
    int64_t heads = s->heads.kv_count;
    kv->lens.bytes = (s->layers + 1) * 2 * heads * (int64_t)sizeof *kv->lens.device;
    LH_TRY(lh_device_alloc(lh_kv_device(kv), &kv->lens.device, kv->lens.bytes, LH_MEM_KV));
    LH_TRY(lh_device_alloc_host(lh_kv_device(kv), &kv->lens.host, kv->lens.bytes));
    LH_TRY(lh_device_alloc_host(lh_kv_device(kv), &kv->lens.expected,
                                LH_EXPECTED_LENS * 2 * heads * (int64_t)sizeof *kv->lens.expected));
    LH_TRY(lh_calloc(&kv->layers, s->layers, sizeof *kv->layers));
    for (int64_t l = 0; l < s->layers; l++)
        LH_TRY(lh_arena_init(&kv->layers[l].arena, &shape, kv->lens.device + l * 2 * heads,
                             lh_kv_form_of(s, &kv->numbers, l)));
    LH_TRY(lh_arena_init(&kv->scratch, &shape, kv->lens.device + s->layers * 2 * heads,
                         (lh_arena_form){.stats = kv->stats.count}));
    return LH_OK;
}

/* Queries or keys are rotated back, and again. */
static int needs_rotations(const lh_policy_numbers *p)
{
    return p->score.source == LH_SCORE_EXPECTED || p->score.source == LH_SCORE_LEVERAGE ||
           p->score.rows_at == LH_ROWS_AT_AFTER || lh_refers_apart(p) || lh_kv_uses_slots(p);
}

lh_status lh_kv_open(lh_kv **out, const lh_exec *exec, const lh_kv_shape *shape, const lh_policy *policy)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    lh_evict_shape evict = {.heads = shape->heads,
                            .head_dim = shape->head_dim,
                            .hidden = shape->hidden,
                            .scale = shape->scale,
                            .softcap = shape->softcap,
                            .layers = shape->layers,
                            .order = shape->order};
    LH_TRY_DONE(lh_calloc(&kv, 1, sizeof *kv));
    kv->exec = *exec;
    kv->shape = *shape;
    kv->policy = *policy;
    kv->numbers = lh_policy_fix(policy, 0);
    kv->stats = lh_entry_stats_of(&kv->numbers, &shape->heads);
    if ((lh_policy_projects(&kv->numbers) && !shape->projections) ||
        (needs_rotations(&kv->numbers) && !shape->rotations))
        LH_FAIL_DONE(LH_EINTERNAL, "policy '%s' needs projections or rotations of the model, which are not set",
                     policy->name);
    LH_TRY_DONE(lh_policy_check_question(policy));
    LH_TRY_DONE(lh_profiles_check(shape->profiles, policy, shape->layers, shape->heads.kv_heads));
    LH_TRY_DONE(init_arrays(&kv->arrays, shape, lh_kv_device(kv)));
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
    lh_counted_rows_free(&layer->latest, device);
    lh_arena_clear(&layer->arena, device);
}

void lh_kv_close(lh_kv *kv)
{
    if (!kv) return;
    lh_device *device = lh_kv_device(kv);
    lh_kv_end_fork(kv);
    if (kv->shared.leader) lh_kv_take_back(kv); /* nothing of the leader's is freed here */
    (void)lh_stream_sync(kv->exec.stream);      /* lengths may still be on their way */
    (void)lh_exec_take(&kv->exec);
    for (int64_t l = 0; kv->layers && l < kv->shape.layers; l++) close_layer(&kv->layers[l], device);
    lh_arena_clear(&kv->scratch, device);
    lh_evictor_close(kv->evictor);
    lh_slot_positions_free(&kv->slots, device);
    lh_kv_close_competition(kv);
    lh_device_free(device, kv->lens.device);
    lh_device_free_host(device, kv->lens.host);
    lh_device_free_host(device, kv->lens.expected);
    lh_gather_clear(&kv->arrays.gather);
    lh_device_free_host(device, kv->arrays.kept);
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

void lh_kv_seed(lh_kv *kv, uint64_t seed)
{
    lh_evictor_seed(kv->evictor, seed);
}
