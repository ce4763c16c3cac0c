/* Norms that weigh scores: of values (AhaKV's prior, arXiv 2506.03762), or the L1 norms of what the output projection
 * makes of them, averaged over the group's query heads (CriticalKV, arXiv 2502.03805). A value does not change before
 * it is fitted, and then nothing is evicted any more: its norm is made once, before the first eviction that asks for
 * it, and goes with the entry. */
#include "evict/evict_impl.h"

/* Norms of each query head of this rank: rows of LH_SPACE_NORMS, where the row of query head 0 of the ranks' is first.
 */
static void project(lh_evictor *ev, const lh_evict_job *job, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    const lh_projection *o = job->layer.projection;
    LH_RUN(&ev->exec, projected_norms, .y = (float *)ev->at[LH_SPACE_NORMS] + (h->split ? h->q_first * entries : 0),
           .kv = job->entries, .map = lh_heads_grouping(h), .last = entries, .ld = entries, .w = o->w, .type = o->type,
           .out = ev->shape.hidden, .w_ld = o->ld);
}

/* Means over the groups of this rank's KV heads go with the entries. */
static void put_means(lh_evictor *ev, const lh_evict_job *job, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    float *rows = ev->at[LH_SPACE_NORMS], *means = rows + (h->split ? h->heads : h->q_count) * entries;
    LH_RUN(&ev->exec, group_reduce, .y = means, .x = rows + (h->split ? h->kv_first * h->group * entries : 0),
           .heads = h->kv_count, .group = h->group, .cols = entries, .y_ld = entries, .x_ld = entries,
           .kind = LH_GROUP_MEAN, .factor = 1.0f);
    LH_RUN(&ev->exec, put_stats, .y = lh_stat_of(job->entries, ev->stats.norms), .x = means, .kv = job->entries,
           .last = entries, .ld = entries);
}

void lh_evict_make_norms(lh_evictor *ev, const lh_evict_job *job)
{
    int64_t entries = ev->stats.norms < 0 ? 0 : lh_min_i64(*job->normless, job->cols);
    if (entries == 0) return;
    if (ev->policy.score.value_prior)
        LH_RUN(&ev->exec, entry_norms, .y = lh_stat_of(job->entries, ev->stats.priors), .kv = job->entries,
               .last = entries, .part = LH_PART_VALUE, .kind = LH_NORM_SQUARE);
    if (lh_policy_projects(&ev->policy)) {
        project(ev, job, entries);
        if (ev->shape.heads.split) lh_exchange_heads(ev, ev->at[LH_SPACE_NORMS], entries * (int64_t)sizeof(float));
        put_means(ev, job, entries);
    }
    *job->normless = 0;
}
