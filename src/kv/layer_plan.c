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
    return (lh_arena_shape){.heads = shape->heads.kv_count, .head_dim = shape->head_dim, .type = shape->types.prompt};
}

lh_dtype lh_kv_kept_type(const lh_kv_types *types, const lh_policy *policy)
{
    return policy->evicts ? types->evicted : types->full;
}

lh_arena_form lh_kv_form_of(const lh_kv_shape *shape, const lh_policy_numbers *p, int64_t layer)
{
    return (lh_arena_form){.has_positions = p->evicts || lh_kv_slides(shape, layer),
                           .stats = p->may_evict_again ? lh_entry_stats_of(p, &shape->heads).count : 0};
}

lh_ring_shape lh_kv_ring_shape(const lh_kv_shape *shape, const lh_policy_numbers *p)
{
    return (lh_ring_shape){
        .rows = lh_ring_row_count(p), .first_rows = p->first_rows, .width = shape->heads.q_count * shape->head_dim};
}

int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_numbers *p, const lh_layer_request *request, int64_t held)
{
    int64_t slack = request->prompt.more;
    const int64_t budget = lh_max_i64(request->budget, request->later);
    if (p->evicts && p->every) slack = lh_min_i64(slack, lh_max_i64(0, budget - held) + p->every);
    if (lh_kv_slides(shape, request->layer)) slack = lh_min_i64(slack, lh_max_i64(0, shape->window - held));
    return slack;
}

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_numbers *policy,
                               const lh_layer_request *request)
{
    lh_layer_plan p = {.budget = request->budget, .later = request->later};
    int64_t tokens = request->prompt.tokens;
    p.visible_from = lh_kv_visible_from(shape, request->layer, tokens);
    p.protect = lh_policy_protect(
        policy, &(lh_protect_request){.budget = p.budget, .seen = tokens, .visible_from = p.visible_from});
    p.kept = policy->block ? lh_min_i64(p.budget, tokens) : p.protect.budget;
    p.evicts = p.kept < tokens && !policy->block;
    p.ranked = p.evicts && lh_protection_ranks(&p.protect) && p.kept < tokens - p.visible_from;
    p.scored = p.ranked && !lh_methods_have(&policy->methods, LH_BY_POSITION);
    p.slack = lh_kv_slack(shape, policy, request, p.kept);
    if (shape->given) { /* how many stay of a head is known from the keep sets alone */
        p.evicts = 1;
        p.ranked = p.scored = 0;
        p.kept = 0;
        p.slack = request->prompt.more;
    }
    return p;
}

int64_t lh_kv_protected(const lh_layer_plan *plan)
{
    return plan->kept - (plan->ranked ? plan->protect.base : 0);
}

int64_t lh_kv_block_count(const lh_policy_numbers *p, int64_t budget, int64_t tokens)
{
    if (!p->evicts || !p->block || tokens <= budget) return 0;
    return (tokens - budget + p->block - 1) / p->block;
}
