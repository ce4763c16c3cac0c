#include <string.h>

#include "kv/kv_impl.h"

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer)
{
    return shape->sliding && shape->sliding[layer] && shape->window > 0;
}

lh_pool_form lh_kv_form_of(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t layer)
{
    int stored = fixed->evicts || lh_kv_slides(shape, layer);
    return (lh_pool_form){.positions = stored ? LH_POSITIONS_STORED : LH_POSITIONS_IMPLIED,
                          .stats = fixed->may_evict_again ? lh_kv_stat_layout(shape, fixed).count : 0};
}

int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen)
{
    return lh_kv_slides(shape, layer) ? lh_max_i64(0, seen - shape->window + 1) : 0;
}

int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_numbers *fixed, const lh_layer_request *request,
                    int64_t held)
{
    int64_t slack = request->prompt.more;
    if (fixed->evicts && fixed->every) slack = lh_min_i64(slack, lh_max_i64(0, request->budget - held) + fixed->every);
    if (lh_kv_slides(shape, request->layer)) slack = lh_min_i64(slack, lh_max_i64(0, shape->window - held));
    return slack;
}

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                               const lh_layer_request *request)
{
    lh_layer_plan p = {.budget = request->budget};
    int64_t tokens = request->prompt.tokens;
    p.visible_from = lh_kv_visible_from(shape, request->layer, tokens);
    p.protect = lh_policy_protect(
        fixed, &(lh_protect_request){.budget = p.budget, .seen = tokens, .visible_from = p.visible_from});
    p.kept = fixed->block ? lh_min_i64(p.budget, tokens) : p.protect.budget;
    p.evicts = p.kept < tokens && !fixed->block;
    p.ranked = p.evicts && p.protect.base > 0 && p.kept < tokens - p.visible_from;
    p.scored = p.ranked && fixed->score.source != LH_SCORE_POSITION;
    p.slack = lh_kv_slack(shape, fixed, request, p.kept);
    return p;
}

int64_t lh_kv_blocks_bytes(const lh_kv_shape *shape)
{
    return (shape->layers + 1) * 2 * shape->heads.kv_count * (int64_t)sizeof(int64_t);
}

/* ---- forecast ---- */

/* Work space of the evictions of a prompt. */
static int64_t observed_bytes(const lh_kv_shape *shape, const lh_policy_numbers *fixed, const lh_work_request *need)
{
    lh_work work;
    lh_row_space rows;
    int64_t bytes = lh_work_size(&work, shape, fixed, need);
    if (lh_kv_observes_again(fixed))
        bytes += lh_row_space_size(&rows, shape, fixed, 0);
    else if (lh_kv_needs_rows(fixed) && need->scored)
        bytes += lh_row_space_size(&rows, shape, fixed, need->ld);
    return bytes;
}

/* Entries that this rank's heads keep of a layer: [kv_count], in `space` of [2, kv_heads of the model]. */
static const int64_t *heads_kept(const lh_kv_shape *shape, const lh_policy_numbers *fixed, const lh_layer_plan *p,
                                 const lh_layer_request *request, int64_t *space)
{
    int64_t n = shape->heads.kv_heads, *room = space, *kept = space + n;
    int64_t protected_ = p->protect.sinks + p->protect.recents;
    for (int64_t g = 0; g < n; g++) kept[g] = p->kept, room[g] = request->prompt.tokens - p->visible_from - protected_;
    if (fixed->budgets.heads == LH_HEADS_PROFILE && p->ranked) {
        lh_policy_heads(&(lh_heads_request){.layer = request->layer,
                                            .heads = n,
                                            .protect = &p->protect,
                                            .room = room,
                                            .profile = lh_profiles_find(shape->profiles, fixed->budgets.head_profile)},
                        kept);
        for (int64_t g = 0; g < n; g++) kept[g] += protected_;
    }
    return kept + shape->heads.kv_first;
}

lh_status lh_kv_plan(const lh_kv_shape *shape, const lh_policy *plan, int64_t tokens, int64_t more, lh_kv_forecast *out)
{
    lh_status st = LH_OK;
    int64_t *budgets = NULL, pools = 0, scores = 0, heads = shape->heads.kv_count, longest = 0;
    lh_policy_numbers fixed = lh_policy_fix(plan, tokens);
    lh_work_request need = {.ld = tokens};
    lh_kv_forecast f = {.held = lh_kv_blocks_bytes(shape) + shape->layers * lh_kv_ring_bytes(shape, &fixed)};
    lh_work work;
    lh_row_space rows;
    int64_t later_rows = lh_kv_observes_again(&fixed) ? lh_row_space_size(&rows, shape, &fixed, 0) : 0;
    LH_TRY_DONE(lh_policy_check_question(plan));
    LH_TRY_DONE(lh_profiles_check(shape->profiles, plan, shape->layers, shape->heads.kv_heads));
    LH_TRY_DONE(lh_calloc(&budgets, shape->layers + 2 * shape->heads.kv_heads, sizeof *budgets));
    lh_policy_layers(&fixed,
                     &(lh_layers_request){.layers = shape->layers,
                                          .seen = tokens,
                                          .window = shape->window,
                                          .sliding = shape->sliding,
                                          .profile = lh_profiles_find(shape->profiles, plan->budgets.layer_profile)},
                     budgets);
    for (int64_t l = 0; l < shape->layers; l++) {
        lh_layer_request request = {.layer = l, .budget = budgets[l], .prompt = {tokens, more}};
        lh_layer_plan p = lh_kv_layer_plan(shape, &fixed, &request);
        const int64_t *kept = heads_kept(shape, &fixed, &p, &request, budgets + shape->layers);
        int64_t entries = 0;
        for (int64_t h = 0; h < heads; h++) {
            entries += kept[h];
            longest = lh_max_i64(longest, kept[h] + p.slack);
        }
        f.entries += entries;
        f.held += lh_pool_bytes(shape, entries + heads * p.slack, lh_kv_form_of(shape, &fixed, l));
        if (lh_kv_evicts_again(&fixed)) {
            int64_t layer = lh_pool_bytes(shape, entries, lh_kv_form_of(shape, &fixed, l));
            f.saved += layer + lh_kv_ring_bytes(shape, &fixed);
            f.moved = lh_max_i64(f.moved, layer);
            f.token += lh_pool_bytes(shape, heads, lh_kv_form_of(shape, &fixed, l));
        }
        if (fixed.budgets.layers == LH_LAYERS_ADAPTIVE && p.ranked)
            scores += (entries + heads * p.slack) * lh_kv_stat_layout(shape, &fixed).count * (int64_t)sizeof(float);
        lh_kv_add_need(&need, shape, &fixed, &p);
        if (!p.evicts) continue;
        f.one_layer = lh_pool_bytes(shape, heads * tokens, lh_kv_scratch_form(shape, &fixed));
        pools = f.held; /* those that lie beside the scratch at the last eviction */
    }
    lh_work_request later = lh_kv_decode_work(&fixed, longest), longer = lh_kv_decode_work(&fixed, 2 * longest);
    int64_t later_work = lh_work_size(&work, shape, &fixed, &later);
    f.decoding = later_rows + later_work;
    if (f.token) f.token += (lh_work_size(&work, shape, &fixed, &longer) - later_work) / lh_max_i64(longest, 1) + 1;
    f.observed = f.one_layer || need.counted ? observed_bytes(shape, &fixed, &need) : later_rows;
    if (fixed.block) f.observed = f.decoding; /* blocks are evicted as while decoding */
    for (int64_t l = 0; l < shape->layers; l++)
        if (lh_kv_counts_latest(shape, &fixed, l)) f.decoding += lh_kv_latest_bytes(shape, &fixed, longest);
    if (lh_kv_turns(&fixed))
        f.decoding +=
            lh_turn_bytes(shape, heads * longest, shape->sliding ? lh_max_i64(longest, shape->window) : longest);
    /* the work space stays until the last layer is done, be it one that evicts nothing */
    f.peak = lh_max_i64(f.held + f.observed, pools + scores + f.one_layer + f.observed);
    *out = f;
done:
    lh_free(budgets);
    return st;
}
