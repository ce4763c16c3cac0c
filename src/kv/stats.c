/* The numbers that go with an entry: which there are, and how operations reach them. */
#include "kv/kv_impl.h"

int64_t lh_kv_parts(const lh_kv_shape *shape, const lh_policy_numbers *fixed)
{
    if (fixed->score.source == LH_SCORE_EXPECTED) return shape->heads.group;
    if (fixed->score.source != LH_SCORE_ATTENTION || fixed->score.statistic == LH_STAT_COUNT) return 1;
    return fixed->shape.group == LH_GROUP_MAX || fixed->shape.group_after_pool ? shape->heads.group : 1;
}

int lh_kv_evicts_again(const lh_policy_numbers *fixed)
{
    return fixed->evicts && (fixed->every > 0 || fixed->block > 0);
}

int lh_kv_needs_rows(const lh_policy_numbers *fixed)
{
    return fixed->evicts && (fixed->score.source == LH_SCORE_ATTENTION || fixed->score.source == LH_SCORE_EXPECTED);
}

int lh_kv_observes_again(const lh_policy_numbers *fixed)
{
    return lh_kv_evicts_again(fixed) && fixed->score.source == LH_SCORE_ATTENTION;
}

lh_stat_layout lh_kv_stat_layout(const lh_kv_shape *shape, const lh_policy_numbers *fixed)
{
    lh_stat_layout l = {.sums = -1,
                        .parts = lh_kv_parts(shape, fixed),
                        .squares = -1,
                        .counts = -1,
                        .priors = -1,
                        .norms = -1,
                        .score = -1};
    if (!fixed->evicts) return l;
    if (fixed->budgets.layers == LH_LAYERS_ADAPTIVE) l.score = l.count++;
    if (fixed->score.source != LH_SCORE_ATTENTION) return l;
    if (fixed->score.running && fixed->score.statistic == LH_STAT_COUNT) {
        l.counts = l.count++;
    } else if (fixed->score.running) {
        l.sums = l.count;
        l.count += l.parts;
    }
    if (fixed->score.running && fixed->select.kind == LH_SELECT_STD_SCOPE) l.squares = l.count++;
    if (fixed->score.value_prior) l.norms = l.priors = l.count++;
    if (fixed->select.kind == LH_SELECT_TWO_STAGE) l.norms = l.count++;
    return l;
}

lh_pool_form lh_kv_scratch_form(const lh_kv_shape *shape, const lh_policy_numbers *fixed)
{
    return (lh_pool_form){.positions = LH_POSITIONS_IMPLIED, .stats = lh_kv_stat_layout(shape, fixed).count};
}

int lh_kv_counts(const lh_policy_numbers *fixed, const lh_layer_plan *layer)
{
    return fixed->evicts && fixed->score.running && (layer->scored || lh_kv_evicts_again(fixed));
}

lh_slot_floats lh_kv_stat(const lh_ragged *view, int64_t index)
{
    return (lh_slot_floats){
        .at = index < 0 ? NULL : view->stats + index, .starts = view->offset, .step = view->stat_count, .next = 1};
}

lh_slot_floats lh_kv_rows_of(void *at, int64_t parts, int64_t ld)
{
    return (lh_slot_floats){.at = at, .ld = parts * ld, .step = 1, .next = ld};
}

lh_slot_floats lh_kv_from_head(lh_slot_floats f, int64_t g)
{
    if (f.starts)
        f.starts += g;
    else if (f.at)
        f.at += g * f.ld * f.step;
    return f;
}

lh_ragged lh_kv_one_head(const lh_ragged *view, int64_t g)
{
    lh_ragged one = *view;
    one.offset += g;
    one.len += g;
    one.heads = 1;
    return one;
}
