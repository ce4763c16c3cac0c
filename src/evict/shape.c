/* Scores as a policy shapes them: pooled along positions, joined over the query heads of a group, weighed by values. */
#include "evict/evict_impl.h"

/* The values over which AhaKV's prior is averaged (arXiv 2506.03762, eq. 12). */
enum { PRIOR_POOL = 7 };

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

/* AhaKV: scores times the pooled squares of value norms, over their maximum in the head. */
static void weigh_by_values(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const int64_t heads = ev->shape.heads.kv_count, mark = lh_scratch_mark(&ev->exec);
    float *norms = lh_scratch_floats(ev, heads * ev->ld), *prior = lh_scratch_floats(ev, heads * ev->ld);
    LH_RUN(&ev->exec, finish_scores, .y = norms, .x = lh_stat_of(job->entries, ev->stats.priors), .kv = job->entries,
           .ld = ev->ld, .parts = 1, .kind = LH_FINISH_PLAIN, .factor = 1.0f);
    lh_pool_entries(ev, job,
                    &(lh_pool_args){.y = prior, .x = norms, .rows_per_head = 1, .k = PRIOR_POOL, .kind = LH_POOL_AVG});
    LH_RUN(&ev->exec, apply_prior, .y = scores, .prior = prior, .state = lh_layer_state(ev), .len = job->entries->len,
           .heads = heads, .ld = ev->ld);
    lh_scratch_release(&ev->exec, mark);
}

/* DefensiveKV (arXiv 2510.13334): no entry counts less than the mean of its head, and scores are weighed by shares of
 * the norms of projected values. */
static void defend(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_policy_score *score = &ev->policy.score;
    lh_slot_floats norms = lh_stat_of(job->entries, score->value_norms ? ev->stats.norms : -1);
    if (!score->mean_floor && !score->value_norms) return;
    LH_RUN(&ev->exec, defend_scores, .y = scores, .norms = norms, .state = lh_layer_state(ev), .len = job->entries->len,
           .heads = ev->shape.heads.kv_count, .ld = ev->ld, .raise = score->mean_floor);
}

lh_scores lh_shape_scores(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_policy_shape *shape = &ev->policy.shape;
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    int apart = parts > 1 && shape->group_after_pool;
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
    if (ev->policy.score.value_prior) weigh_by_values(ev, job, scores);
    defend(ev, job, scores);
    return by;
}
