/* Scores as a policy shapes them: pooled along positions, joined over the query heads of a group, weighed by additions.
 */
#include "evict/evict_impl.h"

void lh_join_group(lh_evictor *ev, const lh_evict_job *job, const float *x, float *y)
{
    LH_RUN(&ev->exec, group_reduce, .y = y, .x = x, .heads = ev->shape.heads.kv_count, .group = ev->shape.heads.group,
           .cols = job->cols, .y_ld = ev->ld, .x_ld = ev->ld, .kind = (lh_group_kind)ev->policy.shape.group,
           .factor = 1.0f);
}

void lh_pool_entries(lh_evictor *ev, const lh_evict_job *job, const lh_pool_args *of)
{
    lh_pool_args args = *of;
    args.state = lh_layer_state(ev);
    args.kv = job->entries;
    args.seen = job->seen;
    args.ld = ev->ld;
    args.rows = ev->shape.heads.kv_count * args.rows_per_head;
    LH_LATCH(&ev->exec, ev->exec.ops->pool(ev->exec.stream, &args));
}

lh_scores lh_shape_scores(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_policy_shape *shape = &ev->policy.shape;
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    int apart = parts > 1 && lh_groups_after_pool(&ev->policy.methods);
    int pools = shape->pool != LH_POOL_NONE;
    const lh_scores by = pools && !apart ? ev->shaped : ev->raw;
    float *scores = lh_layer_scores(ev, by), *pooled = lh_layer_scores(ev, ev->shaped);
    if (pools)
        lh_pool_entries(ev, job,
                        &(lh_pool_args){.y = pooled,
                                        .x = lh_layer_scores(ev, ev->raw),
                                        .rows_per_head = apart ? parts : 1,
                                        .k = shape->pool_size,
                                        .kind = (lh_pool_kind)shape->pool});
    if (pools && apart) lh_join_group(ev, job, pooled, scores);
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->weigh) addition->weigh(ev, job, scores);
    }
    return by;
}
