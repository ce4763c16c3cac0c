#include "kv/layer_plan.h"

#include "base/minmax.h"

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer)
{
    return shape->sliding && shape->sliding[layer] && shape->window > 0;
}

int lh_kv_uses_slots(const lh_policy_numbers *p)
{
    return p->evicts && p->positions == LH_POSITION_SLOT;
}

int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen)
{
    return lh_kv_slides(shape, layer) ? lh_max_i64(0, seen - shape->window + 1) : 0;
}

lh_arena_shape lh_kv_arena_shape(const lh_kv_shape *shape)
{
    return (lh_arena_shape){.heads = shape->heads.kv_count, .head_dim = shape->head_dim, .type = shape->type};
}

lh_arena_form lh_kv_form_of(const lh_kv_shape *shape, const lh_policy_numbers *p, int64_t layer)
{
    return (lh_arena_form){.has_positions = p->evicts || lh_kv_slides(shape, layer),
                           .stats = p->may_evict_again ? lh_entry_stats_of(p, &shape->heads).count : 0};
}

lh_arena_form lh_kv_scratch_form(const lh_kv_shape *shape, const lh_policy_numbers *p)
{
    return (lh_arena_form){.stats = lh_entry_stats_of(p, &shape->heads).count};
}

lh_ring_shape lh_kv_ring_shape(const lh_kv_shape *shape, const lh_policy_numbers *p)
{
    int rings = lh_observes_again(p) && !p->score.running;
    return (lh_ring_shape){
        .rows = rings ? p->rows : 0, .first_rows = p->first_rows, .width = shape->heads.q_count * shape->head_dim};
}

lh_evict_shape lh_kv_evict_shape(const lh_kv_shape *shape)
{
    return (lh_evict_shape){.heads = shape->heads,
                            .head_dim = shape->head_dim,
                            .hidden = shape->hidden,
                            .scale = shape->scale,
                            .softcap = shape->softcap,
                            .layers = shape->layers};
}

int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_numbers *p, const lh_layer_request *request, int64_t held)
{
    int64_t slack = request->prompt.more;
    if (p->evicts && p->every) slack = lh_min_i64(slack, lh_max_i64(0, request->budget - held) + p->every);
    if (lh_kv_slides(shape, request->layer)) slack = lh_min_i64(slack, lh_max_i64(0, shape->window - held));
    return slack;
}

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_numbers *policy,
                               const lh_layer_request *request)
{
    lh_layer_plan p = {.budget = request->budget};
    int64_t tokens = request->prompt.tokens;
    p.visible_from = lh_kv_visible_from(shape, request->layer, tokens);
    p.protect = lh_policy_protect(
        policy, &(lh_protect_request){.budget = p.budget, .seen = tokens, .visible_from = p.visible_from});
    p.kept = policy->block ? lh_min_i64(p.budget, tokens) : p.protect.budget;
    p.evicts = p.kept < tokens && !policy->block;
    p.ranked = p.evicts && p.protect.base > 0 && p.kept < tokens - p.visible_from;
    p.scored = p.ranked && policy->score.source != LH_SCORE_POSITION;
    p.slack = lh_kv_slack(shape, policy, request, p.kept);
    return p;
}

int64_t lh_kv_block_count(const lh_policy_numbers *p, int64_t budget, int64_t tokens)
{
    if (!p->evicts || !p->block || tokens <= budget) return 0;
    return (tokens - budget + p->block - 1) / p->block;
}

void lh_kv_add_need(lh_space_request *need, const lh_layer_plan *plan)
{
    const lh_policy_numbers *p = need->policy;
    int counts = p->score.running && lh_evict_uses_rows(p, LH_EVICT_PREFILL, plan->scored);
    need->ranked |= plan->ranked;
    need->scored |= plan->scored;
    need->counted |= need->shape->heads.split && counts;
}

int64_t lh_kv_blocks_bytes(const lh_kv_shape *shape)
{
    return (shape->layers + 1) * 2 * shape->heads.kv_count * (int64_t)sizeof(int64_t);
}
