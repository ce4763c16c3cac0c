#include <assert.h>
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
    return lh_stream_device(kv->place.stream);
}

lh_status lh_traffic_init(lh_traffic *t, const lh_heads *h)
{
    LH_TRY(lh_calloc(&t->bytes, 2 * h->ranks + 3 * h->kv_heads + 1 + h->kv_count, sizeof *t->bytes));
    t->at = t->bytes + h->ranks;
    t->room = t->at + h->ranks;
    t->share = t->room + h->kv_heads;
    t->offsets = t->share + h->kv_heads;
    t->kept = t->offsets + h->kv_heads + 1;
    return LH_OK;
}

void lh_traffic_clear(lh_traffic *t)
{
    lh_free(t->bytes);
    *t = (lh_traffic){0};
}

lh_status lh_kv_open(lh_kv **out, const lh_exec *place, const lh_kv_shape *shape, const lh_policy *plan)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    int64_t heads = shape->heads.kv_count;
    LH_TRY_DONE(lh_calloc(&kv, 1, sizeof *kv));
    kv->place = *place;
    kv->shape = *shape;
    kv->plan = *plan;
    kv->fixed = lh_policy_fix(plan, 0);
    kv->layout = lh_kv_stat_layout(shape, &kv->fixed);
    if ((plan->select.kind == LH_SELECT_TWO_STAGE && !shape->projections) ||
        ((plan->score.source == LH_SCORE_EXPECTED || lh_kv_turns(&kv->fixed)) && !shape->rotations))
        LH_FAIL_DONE(LH_EINTERNAL, "policy '%s' needs projections or rotations of the model, which are not at hand",
                     plan->name);
    LH_TRY_DONE(lh_policy_check_question(plan));
    LH_TRY_DONE(lh_profiles_check(shape->profiles, plan, shape->layers, shape->heads.kv_heads));
    kv->layer_profile = lh_profiles_find(shape->profiles, plan->budgets.layer_profile);
    kv->head_profile = lh_profiles_find(shape->profiles, plan->budgets.head_profile);
    kv->last_evicted = -1;
    LH_TRY_DONE(lh_calloc(&kv->layers, shape->layers, sizeof *kv->layers));
    LH_TRY_DONE(lh_calloc(&kv->budgets, shape->layers, sizeof *kv->budgets));
    LH_TRY_DONE(lh_traffic_init(&kv->traffic, &shape->heads));
    LH_TRY_DONE(lh_device_alloc(lh_kv_device(kv), &kv->blocks, lh_kv_blocks_bytes(shape), LH_MEM_KV));
    LH_TRY_DONE(lh_device_alloc_host(lh_kv_device(kv), &kv->fetched, lh_kv_blocks_bytes(shape)));
    for (int64_t l = 0; l < shape->layers; l++)
        LH_TRY_DONE(
            lh_pool_init(&kv->layers[l].pool, shape, kv->blocks + l * 2 * heads, lh_kv_form_of(shape, &kv->fixed, l)));
    LH_TRY_DONE(lh_pool_init(&kv->scratch, shape, kv->blocks + shape->layers * 2 * heads,
                             lh_kv_scratch_form(shape, &kv->fixed)));
    *out = kv;
    kv = NULL;
done:
    lh_kv_close(kv);
    return st;
}

/* Lengths may still be on their way. */
static void close_fetched(lh_kv *kv)
{
    if (kv->behind) (void)lh_stream_sync(kv->place.stream);
    lh_device_free_host(lh_kv_device(kv), kv->fetched);
}

void lh_kv_close(lh_kv *kv)
{
    if (!kv) return;
    if (kv->leader) lh_kv_take_back(kv); /* nothing of the leader's is freed here */
    for (int64_t l = 0; kv->layers && l < kv->shape.layers; l++) {
        lh_kv_drop_saved(kv, l);
        lh_device_free(lh_kv_device(kv), kv->layers[l].ring.q);
        lh_kv_free_latest(kv, &kv->layers[l].latest);
        lh_pool_clear(&kv->layers[l].pool, kv->place.stream);
    }
    lh_pool_clear(&kv->scratch, kv->place.stream);
    lh_work_free(&kv->work, kv->place.stream);
    lh_row_space_free(&kv->rows, kv->place.stream);
    lh_turn_free(kv);
    lh_kv_close_over_layers(kv);
    lh_traffic_clear(&kv->traffic);
    lh_device_free(lh_kv_device(kv), kv->blocks);
    close_fetched(kv);
    lh_free(kv->followers);
    lh_free(kv->layers);
    lh_free(kv->budgets);
    lh_free(kv);
}

void lh_kv_listen(lh_kv *kv, const lh_kv_listener *listener)
{
    kv->listener = *listener;
}

void lh_kv_seed(lh_kv *kv, uint64_t seed, uint32_t request)
{
    kv->seed = seed;
    kv->request = request;
}

void lh_kv_make_budgets(lh_kv *kv, int64_t seen)
{
    const lh_kv_shape *s = &kv->shape;
    lh_policy_layers(&kv->fixed,
                     &(lh_layers_request){.layers = s->layers,
                                          .seen = seen,
                                          .window = s->window,
                                          .sliding = s->sliding,
                                          .profile = kv->layer_profile},
                     kv->budgets);
    kv->clock.budgets_made = kv->fixed.evicts && kv->fixed.budget < seen;
}

lh_status lh_kv_begin_layers(lh_kv *kv, const lh_prompt *prompt)
{
    if (kv->begun) LH_FAIL(LH_EINTERNAL, "the cache is not empty: it holds %lld tokens", (long long)kv->clock.seen);
    kv->prompt = *prompt;
    kv->fixed = lh_policy_fix(&kv->plan, prompt->tokens);
    lh_kv_make_budgets(kv, prompt->tokens);
    for (int64_t l = 0; l < kv->shape.layers; l++)
        kv->layers[l].plan = lh_kv_layer_plan(
            &kv->shape, &kv->fixed, &(lh_layer_request){.layer = l, .budget = kv->budgets[l], .prompt = *prompt});
    int64_t ring = lh_kv_ring_bytes(&kv->shape, &kv->fixed);
    for (int64_t l = 0; l < kv->shape.layers && ring; l++)
        LH_TRY(lh_device_alloc(lh_kv_device(kv), &kv->layers[l].ring.q, ring, LH_MEM_KV));
    if (lh_kv_observes_again(&kv->fixed)) LH_TRY(lh_kv_alloc_rows(kv, 0));
    kv->begun = 1;
    return LH_OK;
}

lh_status lh_kv_alloc_rows(lh_kv *kv, int64_t tokens)
{
    lh_row_space_size(&kv->rows, &kv->shape, &kv->fixed, tokens);
    return lh_parts_alloc(kv->rows.at, kv->rows.bytes, LH_ROWS_PARTS, kv->place.stream);
}

int64_t lh_kv_seen(const lh_kv *kv)
{
    return kv->clock.seen;
}

int64_t lh_kv_layer_budget(const lh_kv *kv, int64_t layer)
{
    return kv->budgets[layer];
}

const lh_ragged *lh_kv_view(const lh_kv *kv, int64_t layer)
{
    return &kv->layers[layer].pool.view;
}

static int64_t pool_capacity(const lh_kv *kv, const lh_pool *pool)
{
    return lh_pool_bytes(&kv->shape, pool->slots, pool->form);
}

static int64_t entries_of(const int64_t *lens, int64_t heads)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < heads; h++) entries += lens[h];
    return entries;
}

lh_status lh_kv_stats_of(lh_kv *kv, lh_kv_stats *out)
{
    const lh_heads *heads = &kv->shape.heads;
    int64_t entry = 2 * kv->shape.head_dim * lh_dtype_bytes(kv->shape.type);
    int64_t ring = lh_kv_ring_bytes(&kv->shape, &kv->fixed);
    lh_kv_stats s = {.entries_seen = kv->clock.seen * heads->kv_count * kv->shape.layers,
                     .summary_bytes = kv->summary_bytes,
                     .evictions = kv->clock.evictions,
                     .evict_s = kv->evict_s,
                     .bytes_capacity = pool_capacity(kv, &kv->scratch)};
    LH_TRY(lh_kv_fetch_lens(kv));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_kv_layer *layer = &kv->layers[l];
        const int64_t *lens = layer->pool.len;
        s.entries_held += entries_of(lens, heads->kv_count);
        s.entries_counted += entries_of(lens + heads->counted_first - heads->kv_first, heads->counted_count);
        s.bytes_capacity += pool_capacity(kv, &layer->pool);
        if (layer->saved.taken)
            s.bytes_capacity += lh_pool_bytes(&kv->shape, entries_of(layer->saved.len, heads->kv_count),
                                              (lh_pool_form){.positions = layer->pool.form.positions});
        if (layer->saved.view.stats)
            s.bytes_capacity +=
                entries_of(layer->saved.len, heads->kv_count) * layer->pool.form.stats * (int64_t)sizeof(float);
        s.bytes_capacity += (layer->ring.q ? ring : 0) + (layer->ring.saved ? ring : 0);
    }
    s.bytes_held = s.entries_held * entry;
    s.bytes_full = s.entries_seen * entry;
    *out = s;
    return LH_OK;
}
