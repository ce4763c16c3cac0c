/* The steps of an eviction, in the order in which they happen: classify (mask.c), score, shape, budgets, mark. */
#include <string.h>

#include "evict/adaptive_heads.h"
#include "evict/evict_impl.h"

static void notify(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    const lh_evict_listener *l = &ev->listener;
    float *raw = by.at == ev->shaped.at ? lh_layer_scores(ev, ev->raw) : NULL;
    if (!l->scored || !job->scored || !lh_exec_ok(&ev->exec)) return;
    lh_exec_latch(&ev->exec, l->scored(l->self, job->layer.index,
                                       &(lh_evict_scores){.view = job->entries,
                                                          .raw = raw,
                                                          .scores = lh_layer_scores(ev, by),
                                                          .state = lh_layer_state(ev),
                                                          .ld = ev->ld}));
}

/* Collective where groups are split. The source's scores, shaped. */
static lh_scores score_entries(lh_evictor *ev, const lh_evict_job *job)
{
    ev->scoring = ev->references = (lh_row_block){0};
    lh_evict_make_norms(ev, job);
    lh_source_of(&ev->policy)->score(ev, job, lh_layer_scores(ev, ev->raw));
    return lh_shape_scores(ev, job);
}

static void rank_entries(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    ev->stages = lh_make_stages(ev, job, by);
    notify(ev, job, by);
}

/* Collective. Layers that were scored: heads are joined before they are ranked. */
static void join_layers(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_scores by = ev->stages.first;
    lh_join_heads(ev, jobs, n, by);
    for (ev->layer = 0; ev->layer < n; ev->layer++) rank_entries(ev, &jobs[ev->layer], by);
    ev->layer = 0;
}

/* What this rank's heads keep of their competing entries where no scores are needed for it: counts [kv_count]. */
static void plan_counts(lh_evictor *ev, const lh_evict_job *job, int64_t *counts)
{
    const lh_heads *h = &ev->shape.heads;
    for (int64_t g = 0; g < h->kv_heads; g++) ev->budgets[g] = job->protect.base;
    if (ev->policy.budgets.heads == LH_HEADS_PROFILE)
        lh_policy_heads(&(lh_heads_request){.layer = job->layer.index,
                                            .heads = h->kv_heads,
                                            .protect = &job->protect,
                                            .room = job->room,
                                            .profile = ev->head_profile},
                        ev->budgets);
    memcpy(counts, ev->budgets + h->kv_first, (size_t)h->kv_count * sizeof *counts);
}

static void count_by_plan(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const int64_t heads = ev->shape.heads.kv_count, bytes = n * heads * (int64_t)sizeof *ev->planned;
    int64_t *counts = lh_scratch_alloc(&ev->exec, bytes);
    for (int64_t i = 0; i < n; i++) plan_counts(ev, &jobs[i], ev->planned + i * heads);
    lh_exec_put(&ev->exec, counts, ev->planned, bytes);
    ev->counts = (lh_counts){.at = counts, .step = heads};
}

void lh_evict_score(lh_evictor *ev, const lh_evict_job *job, int64_t i)
{
    lh_scratch_release(&ev->exec, ev->scoring_mark);
    ev->outputs = NULL;
    ev->layer = i;
    for (lh_method_id m = 1; m < LH_METHODS && job->protect.chosen; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->protect) addition->protect(ev, job);
    }
    const lh_scores by = score_entries(ev, job);
    if (ev->policy.select.joint)
        ev->stages.first = by;
    else
        rank_entries(ev, job, by);
}

void lh_evict_choose(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, int64_t *counts)
{
    const int64_t bytes = ev->shape.heads.kv_count * (int64_t)sizeof *counts;
    const int adaptive = ev->policy.budgets.heads == LH_HEADS_ADAPTIVE;
    ev->layer = 0;
    if (ev->policy.select.joint) join_layers(ev, jobs, n);
    (adaptive ? lh_adaptive_counts : count_by_plan)(ev, jobs, n);
    if (counts && adaptive) lh_exec_copy(&ev->exec, counts, ev->counts.at, bytes, LH_COPY_TO_HOST);
    if (counts && !adaptive) memcpy(counts, ev->planned, (size_t)bytes);
    lh_mark_stages(ev, jobs, n);
}

void lh_evict_select(lh_evictor *ev, const lh_evict_job *job, int64_t *counts)
{
    for (int64_t h = 0; h < ev->shape.heads.kv_count && counts; h++) counts[h] = job->ranked ? job->protect.base : 0;
    lh_evict_classify(ev, job, 1);
    if (!job->ranked) return;
    lh_evict_score(ev, job, 0);
    lh_evict_choose(ev, job, 1, counts);
}

void lh_evict_keep_scores(lh_evictor *ev, const lh_evict_job *job)
{
    lh_evict_classify(ev, job, 1);
    rank_entries(ev, job, score_entries(ev, job));
    /* what is protected has none, and no number by chance: a prefill in flight is saved */
    LH_RUN(&ev->exec, put_stats, .y = lh_stat_of(job->entries, ev->stats.score), .x = ev->stages.heads.at,
           .state = ev->state, .kv = job->entries, .last = LH_ALL_ENTRIES, .ld = ev->ld);
}
