/* kv.c - the life of a cache: opened, forked, closed.
 *
 * A fork continues from the state of another cache, its origin: several questions about one context, each from the
 * state after the context. A layer that never evicts shares the origin's full blocks of 256 entries (LH_SHARED_BLOCK);
 * its tail is copied, and the fork appends to its own memory. A layer that evicts, slides, rotates by slots or has
 * statistics of its entries is copied whole. */
#include <assert.h>

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
    kv->lens.bytes = (s->layers + 2) * 2 * heads * (int64_t)sizeof *kv->lens.device;
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
    LH_TRY(lh_arena_init(&kv->probes.arena, &shape, kv->lens.device + (s->layers + 1) * 2 * heads,
                         (lh_arena_form){.has_positions = 1}));
    return LH_OK;
}

static int needs_projections(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_NEEDS_PROJECTION) || lh_uses_method(&p->methods, LH_METHOD_output_norms);
}

/* Queries or keys are rotated back, and again. */
static int needs_rotations(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_NEEDS_ROTATION) || p->score.rows_at == LH_ROWS_AT_AFTER ||
           lh_refers_apart(p) || lh_kv_uses_slots(p);
}

lh_status lh_kv_open(lh_kv **out, const lh_exec *exec, const lh_kv_shape *shape, const lh_policy *policy)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    lh_evict_shape evict = {.heads = shape->heads,
                            .head_dim = shape->head_dim,
                            .hidden = shape->hidden,
                            .projection_bytes = shape->projection_bytes,
                            .scale = shape->scale,
                            .softcap = shape->softcap,
                            .layers = shape->layers,
                            .order = shape->order};
    LH_TRY_DONE(lh_calloc(&kv, 1, sizeof *kv));
    kv->exec = *exec;
    kv->shape = *shape;
    kv->policy = *policy;
    kv->kept_type = lh_kv_kept_type(&shape->types, policy);
    kv->numbers = lh_policy_fix(policy, 0);
    kv->stats = lh_entry_stats_of(&kv->numbers, &shape->heads);
    if ((needs_projections(&kv->numbers) && !shape->projections) ||
        (needs_rotations(&kv->numbers) && !shape->rotations))
        LH_FAIL_DONE(LH_EINTERNAL, "policy '%s' needs projections or rotations of the model, which are not set",
                     policy->name);
    if (lh_policy_has(policy, LH_NEEDS_SCORE_WEIGHTS) && !policy->score.weights)
        LH_FAIL_DONE(LH_EINTERNAL, "policy '%s' has no weights of its model: lh_policy_size comes first", policy->name);
    if (policy->budget_bytes)
        LH_FAIL_DONE(LH_EINTERNAL, "the budget of policy '%s' is in bytes still: lh_policy_size comes first",
                     policy->name);
    LH_TRY_DONE(lh_policy_check_question(policy));
    LH_TRY_DONE(lh_profiles_check(shape->profiles, policy, shape->layers, shape->heads.kv_heads));
    LH_TRY_DONE(init_arrays(&kv->arrays, shape, lh_kv_device(kv)));
    LH_TRY_DONE(init_arenas(kv));
    LH_TRY_DONE(lh_evictor_open(&kv->evictor, exec, &evict,
                                lh_profiles_find(shape->profiles, LH_PROFILE_OF_HEADS, policy->budgets.head_profile)));
    *out = kv;
    kv = NULL;
done:
    lh_kv_close(kv);
    return st;
}

static void close_layer(lh_kv_layer *layer, lh_device *device)
{
    lh_ring_free(&layer->ring, device);
    lh_counted_rows_free(&layer->latest, device);
    lh_arena_clear(&layer->arena, device);
}

/* The origin's figures include the time of its closed forks. */
static void leave_origin(lh_kv *kv)
{
    if (!kv->origin) return;
    kv->origin->forks--;
    kv->origin->evict_s += kv->evict_s;
    kv->origin = NULL;
}

void lh_kv_close(lh_kv *kv)
{
    if (!kv) return;
    lh_device *device = lh_kv_device(kv);
    assert(!kv->forks); /* they share its entries */
    leave_origin(kv);
    if (kv->shared.leader) lh_kv_take_back(kv); /* nothing of the leader's is freed here */
    (void)lh_stream_sync(kv->exec.stream);      /* lengths may still be on their way */
    (void)lh_exec_take(&kv->exec);
    for (int64_t l = 0; kv->layers && l < kv->shape.layers; l++) close_layer(&kv->layers[l], device);
    lh_arena_clear(&kv->scratch, device);
    lh_arena_clear(&kv->probes.arena, device);
    lh_evictor_close(kv->evictor);
    lh_slot_positions_free(&kv->slots, device);
    lh_kv_free_widened(kv);
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
    kv->seed = seed;
    lh_evictor_seed(kv->evictor, seed);
}

/* ---- forks ---- */

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
    layer->entries_without_norm = source->entries_without_norm;
    for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
        caps[h] = source->arena.len[h] + lh_kv_slack(&kv->shape, &kv->numbers, &request, source->arena.len[h]);
    LH_TRY(lh_arena_copy(&layer->arena, &kv->exec, &source->arena, caps, entries_kind(kv, &source->arena, l)));
    if (layer->ring.q)
        LH_TRY(lh_stream_copy(kv->exec.stream, layer->ring.q, source->ring.q, lh_ring_bytes(&layer->ring.shape),
                              LH_COPY_ON_DEVICE));
    return LH_OK;
}

lh_status lh_kv_fork(lh_kv **out, lh_kv *from, int64_t more)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    lh_kv_shape shape = from->shape;
    shape.given = NULL; /* the prompt has been evicted */
    if (from->timeline.phase != LH_KV_DECODE)
        LH_FAIL_DONE(LH_EINTERNAL, "a cache that has no prompt yet cannot be forked");
    LH_TRY_DONE(lh_kv_wait_lens(from));
    LH_TRY_DONE(lh_kv_open(&kv, &from->exec, &shape, &from->policy));
    lh_kv_seed(kv, from->seed);
    lh_kv_listen(kv, &from->listener);
    LH_TRY_DONE(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = from->prompt.tokens, .more = more}));
    kv->origin = from;
    from->forks++;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY_DONE(fork_layer(kv, from, l));
    kv->timeline = from->timeline;
    *out = kv;
    kv = NULL;
done:
    lh_kv_close(kv);
    return st;
}

lh_status lh_kv_unshare(lh_kv *kv)
{
    kv->epoch++;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_arena_unshare(&kv->layers[l].arena, &kv->exec));
    leave_origin(kv);
    return LH_OK;
}
