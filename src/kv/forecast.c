/* What the memory of a prompt will be, from the same plans and sizes by which it is allocated. */
#include "kv/figures.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "cache/slot_positions.h"
#include "evict/latest_row.h"
#include "kv/layer_plan.h"

/* A forecast under way. */
typedef struct forecast {
    const lh_kv_shape *shape;
    const lh_policy_numbers *policy;
    lh_evict_shape evict;
    lh_arena_shape arena;
    lh_prompt prompt;
    int64_t *budgets;       /* [layers] */
    int64_t *room, *kept;   /* [kv_heads of the model] */
    int64_t arenas, scores; /* arenas beside the scratch at the last eviction; scores of layers that compete */
    int64_t longest;        /* slots of the longest head */
    lh_space_request prefill;
    lh_kv_forecast out;
} forecast;

/* Entries that this rank's heads keep of a layer: [kv_count]. */
static const int64_t *heads_kept(const forecast *f, const lh_layer_plan *p, int64_t layer)
{
    int64_t n = f->shape->heads.kv_heads, protected_ = p->protect.sinks + p->protect.recents;
    for (int64_t g = 0; g < n; g++) {
        f->kept[g] = p->kept;
        f->room[g] = f->prompt.tokens - p->visible_from - protected_;
    }
    if (f->policy->budgets.heads == LH_HEADS_PROFILE && p->ranked) {
        lh_policy_heads(
            &(lh_heads_request){.layer = layer,
                                .heads = n,
                                .protect = &p->protect,
                                .room = f->room,
                                .profile = lh_profiles_find(f->shape->profiles, f->policy->budgets.head_profile)},
            f->kept);
        for (int64_t g = 0; g < n; g++) f->kept[g] += protected_;
    }
    return f->kept + f->shape->heads.kv_first;
}

static void add_layer(forecast *f, int64_t layer)
{
    int64_t heads = f->shape->heads.kv_count, entries = 0, f32 = sizeof(float);
    lh_layer_request request = {.layer = layer, .budget = f->budgets[layer], .prompt = f->prompt};
    lh_layer_plan p = lh_kv_layer_plan(f->shape, f->policy, &request);
    lh_arena_form form = lh_kv_form_of(f->shape, f->policy, layer);
    lh_ring_shape ring = lh_kv_ring_shape(f->shape, f->policy);
    const int64_t *kept = heads_kept(f, &p, layer);
    for (int64_t h = 0; h < heads; h++) {
        entries += kept[h];
        f->longest = lh_max_i64(f->longest, kept[h] + p.slack);
    }
    f->out.entries += entries;
    f->out.held += lh_arena_bytes(&f->arena, entries + heads * p.slack, form);
    if (lh_evicts_again(f->policy)) {
        int64_t bytes = lh_arena_bytes(&f->arena, entries, form);
        f->out.saved += bytes + lh_ring_bytes(&ring);
        f->out.moved = lh_max_i64(f->out.moved, bytes);
        f->out.token += lh_arena_bytes(&f->arena, heads, form);
    }
    if (f->policy->budgets.layers == LH_LAYERS_ADAPTIVE && p.ranked)
        f->scores += (entries + heads * p.slack) * lh_entry_stats_of(f->policy, &f->shape->heads).count * f32;
    lh_kv_add_need(&f->prefill, &p);
    if (!p.evicts) return;
    f->out.one_layer = lh_arena_bytes(&f->arena, heads * f->prompt.tokens, lh_kv_scratch_form(f->shape, f->policy));
    f->arenas = f->out.held;
}

/* Work space of evictions while decoding, and of those of the prompt. */
static void add_work(forecast *f)
{
    const lh_policy_numbers *p = f->policy;
    lh_space_request later = lh_space_of_decoding(&f->evict, p, f->longest);
    lh_space_request longer = lh_space_of_decoding(&f->evict, p, 2 * f->longest);
    int64_t rows = lh_observes_again(p) ? lh_space_row_bytes(&later) : 0, work = lh_space_bytes(&later);
    f->out.decoding = rows + work;
    if (f->out.token) f->out.token += (lh_space_bytes(&longer) - work) / lh_max_i64(f->longest, 1) + 1;
    f->out.observed = rows;
    if (f->out.one_layer || f->prefill.counted) {
        f->out.observed += lh_space_bytes(&f->prefill);
        f->prefill.tokens = f->prompt.tokens;
        if (!lh_observes_again(p) && f->prefill.scored) f->out.observed += lh_space_row_bytes(&f->prefill);
    }
    if (p->block) f->out.observed = f->out.decoding; /* blocks are evicted as while decoding */
    for (int64_t l = 0; l < f->shape->layers; l++)
        if (!lh_kv_slides(f->shape, l)) f->out.decoding += lh_latest_row_bytes(p, &f->shape->heads, f->longest);
    if (lh_kv_uses_slots(p))
        f->out.decoding +=
            lh_slot_positions_bytes(&f->arena, f->arena.heads * f->longest,
                                    f->shape->sliding ? lh_max_i64(f->longest, f->shape->window) : f->longest);
}

lh_status lh_kv_plan(const lh_kv_shape *shape, const lh_policy *policy, int64_t tokens, int64_t more,
                     lh_kv_forecast *out)
{
    lh_policy_numbers numbers = lh_policy_fix(policy, tokens);
    lh_ring_shape ring = lh_kv_ring_shape(shape, &numbers);
    forecast f = {.shape = shape,
                  .policy = &numbers,
                  .evict = lh_kv_evict_shape(shape),
                  .arena = lh_kv_arena_shape(shape),
                  .prompt = {tokens, more},
                  .out = {.held = lh_kv_blocks_bytes(shape) + shape->layers * lh_ring_bytes(&ring)}};
    f.prefill = (lh_space_request){.shape = &f.evict, .policy = &numbers, .ld = tokens};
    LH_TRY(lh_policy_check_question(policy));
    LH_TRY(lh_profiles_check(shape->profiles, policy, shape->layers, shape->heads.kv_heads));
    LH_TRY(lh_calloc(&f.budgets, shape->layers + 2 * shape->heads.kv_heads, sizeof *f.budgets));
    f.room = f.budgets + shape->layers;
    f.kept = f.room + shape->heads.kv_heads;
    lh_policy_layers(&numbers,
                     &(lh_layers_request){.layers = shape->layers,
                                          .seen = tokens,
                                          .window = shape->window,
                                          .sliding = shape->sliding,
                                          .profile = lh_profiles_find(shape->profiles, policy->budgets.layer_profile)},
                     f.budgets);
    for (int64_t l = 0; l < shape->layers; l++) add_layer(&f, l);
    add_work(&f);
    /* the work space stays until the last layer is done, be it one that evicts nothing */
    f.out.peak = lh_max_i64(f.out.held + f.out.observed, f.arenas + f.scores + f.out.one_layer + f.out.observed);
    *out = f.out;
    lh_free(f.budgets);
    return LH_OK;
}
