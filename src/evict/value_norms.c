/* Norms that weigh scores: those of additions, and the L1 norms of projected values, averaged over the group's query
 * heads (CriticalKV, arXiv 2502.03805). A value does not change before
 * it is fitted, and then nothing is evicted any more: its norm is made once, before the first eviction that asks for
 * it, and goes with the entry. */
#include "evict/evict_impl.h"

/* rows = norms of each query head of this rank. */
static void project(lh_evictor *ev, const lh_evict_job *job, float *rows, int64_t entries)
{
    const lh_projection *o = job->layer.projection;
    LH_RUN(&ev->exec, projected_norms, .y = rows, .kv = job->entries, .map = lh_heads_grouping(&ev->shape.heads),
           .last = entries, .ld = entries, .w = o->w, .type = o->type, .out = ev->shape.hidden, .w_ld = o->ld);
}

/* Stores the means of rows over the groups of this rank's KV heads with the entries; head 0 of `rows` is query head
 * `first` of the model. */
static void put_means(lh_evictor *ev, const lh_evict_job *job, const float *rows, int64_t first, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    float *means = lh_scratch_floats(ev, h->kv_count * entries);
    LH_RUN(&ev->exec, group_reduce, .y = means, .x = rows + (h->kv_first * h->group - first) * entries,
           .heads = h->kv_count, .group = h->group, .cols = entries, .y_ld = entries, .x_ld = entries,
           .kind = LH_GROUP_MEAN, .factor = 1.0f);
    LH_RUN(&ev->exec, put_stats, .y = lh_stat_of(job->entries, ev->stats.norms), .x = means, .kv = job->entries,
           .last = entries, .ld = entries);
}

/* Collective where groups are split. */
static void make_projected_norms(lh_evictor *ev, const lh_evict_job *job, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    float *own = lh_scratch_floats(ev, h->q_count * entries);
    project(ev, job, own, entries);
    if (h->split) {
        float *all = lh_scratch_floats(ev, h->heads * entries);
        lh_exchange_heads(ev, own, all, entries * (int64_t)sizeof *all);
        put_means(ev, job, all, 0, entries);
    } else {
        put_means(ev, job, own, h->q_first, entries);
    }
    lh_scratch_release(&ev->exec, mark);
}

void lh_evict_make_norms(lh_evictor *ev, const lh_evict_job *job)
{
    int64_t entries = ev->stats.norms < 0 ? 0 : lh_min_i64(*job->normless, job->cols);
    if (entries == 0) return;
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->make_norms) addition->make_norms(ev, job, entries);
    }
    if (lh_methods_have(&ev->policy.methods, LH_NEEDS_PROJECTION)) make_projected_norms(ev, job, entries);
    *job->normless = 0;
}
