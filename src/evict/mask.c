/* The keep mask of a layer: made by position, then by scores. */
#include <assert.h>

#include "evict/evict.h"
#include "evict/evict_impl.h"

lh_keep lh_evict_keep(const lh_evictor *ev)
{
    return (lh_keep){.state = ev->state, .ld = ev->ld};
}

void lh_evict_put_keep(lh_evictor *ev, const uint8_t *state)
{
    const int64_t bytes = ev->shape.heads.kv_count * ev->ld;
    ev->state = lh_scratch_alloc(&ev->exec, bytes);
    lh_exec_put(&ev->exec, ev->state, state, bytes);
}

static lh_position_lines lines_of(const lh_evict_job *job)
{
    const lh_protection *p = &job->protect;
    int64_t recent_from = job->seen - p->recents;
    if (p->budget >= job->seen - job->visible_from) recent_from = job->visible_from; /* all that can be seen stays */
    return (lh_position_lines){
        .visible_from = job->visible_from, .sinks = job->visible_from + p->sinks, .recent_from = recent_from};
}

const lh_ragged *lh_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ev->views[i] = *jobs[i].entries;
    return ev->views;
}

const lh_ragged *lh_counted_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t skip = h->counted_first - h->kv_first;
    for (int64_t i = 0; i < n; i++) {
        ev->views[i] = *jobs[i].entries;
        ev->views[i].offset += skip;
        ev->views[i].len += skip;
        ev->views[i].heads = h->counted_count;
    }
    return ev->views;
}

static lh_scores alloc_scores(const lh_evictor *ev, int64_t layers, int64_t parts)
{
    const int64_t step = parts * ev->shape.heads.kv_count * ev->ld;
    return (lh_scores){lh_scratch_floats(ev, layers * step), step};
}

static int has_second_stage(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_STAGED);
}

/* For the scores of n layers. */
static void alloc_arrays(lh_evictor *ev, int64_t n)
{
    const lh_policy_numbers *p = &ev->policy;
    const int64_t parts = lh_score_parts(p, &ev->shape.heads);
    ev->raw = alloc_scores(ev, n, parts);
    if (p->shape.pool != LH_POOL_NONE) ev->shaped = alloc_scores(ev, n, parts);
    if (has_second_stage(p)) ev->second = alloc_scores(ev, n, 1);
    if (lh_uses_method(&p->methods, LH_METHOD_losses)) ev->loss_gains = alloc_scores(ev, n, 1);
}

/* stored: the scores that are stored with entries; at NULL: not wanted. */
static void classify(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores stored)
{
    lh_position_lines lines[LH_EVICT_AT_ONCE];
    for (int64_t i = 0; i < n; i++) lines[i] = lines_of(&jobs[i]);
    LH_RUN(&ev->exec, classify, .state = ev->state, .scores = stored.at, .kv = lh_views_of(ev, jobs, n), .lines = lines,
           .batch = n, .ld = ev->ld, .scores_step = stored.step, .stat = ev->stats.score);
}

void lh_evict_classify(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    assert(n <= ev->layers || !lh_exec_ok(&ev->exec));
    ev->state = lh_scratch_alloc(&ev->exec, n * ev->shape.heads.kv_count * ev->ld);
    if (jobs->ranked) alloc_arrays(ev, n);
    ev->layer = 0;
    ev->scoring_mark = lh_scratch_mark(&ev->exec);
    classify(ev, jobs, n, (lh_scores){0});
}

int64_t lh_evict_together(const lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    int64_t count = 0, cols = 0;
    for (; count < lh_min_i64(n, LH_EVICT_AT_ONCE); count++) {
        cols = lh_max_i64(cols, jobs[count].cols);
        if (count > 0 && (count + 1) * cols > ev->max_ld) break;
    }
    return count;
}

void lh_evict_show_scores(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    ev->ld = 0;
    for (int64_t i = 0; i < n; i++) ev->ld = lh_max_i64(ev->ld, jobs[i].cols);
    ev->state = lh_scratch_alloc(&ev->exec, n * ev->shape.heads.kv_count * ev->ld);
    ev->raw = alloc_scores(ev, n, 1);
    ev->layer = 0;
    ev->stages = (lh_stage_scores){.first = ev->raw, .heads = ev->raw};
    classify(ev, jobs, n, ev->raw);
}

void lh_mark_best(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by, lh_counts counts,
                  lh_entry_state others)
{
    LH_RUN(&ev->exec, select_top, .state = lh_layer_state(ev), .scores = lh_layer_scores(ev, by),
           .kv = lh_views_of(ev, jobs, n), .counts = counts.at, .batch = n, .ld = ev->ld, .scores_step = by.step,
           .counts_step = counts.step, .others = others);
}

void lh_evict_mark_from(lh_evictor *ev, const lh_evict_job *job, const lh_count_best_args *from, int64_t *counts)
{
    const int64_t heads = job->entries->heads, bytes = heads * (int64_t)sizeof *counts;
    lh_count_best_args args = *from;
    args.counts = lh_scratch_alloc(&ev->exec, bytes);
    args.scores = ev->stages.heads.at;
    args.state = ev->state;
    args.kv = job->entries;
    args.ld = ev->ld;
    LH_LATCH(&ev->exec, ev->exec.ops->count_best(ev->exec.stream, &args));
    lh_exec_copy(&ev->exec, counts, args.counts, bytes, LH_COPY_TO_HOST);
    lh_mark_best(ev, job, 1, ev->stages.heads, (lh_counts){.at = args.counts, .step = heads}, LH_ENTRY_DROP);
}

void lh_evict_mark(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, const int64_t *budgets)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t layer_bytes = h->kv_heads * (int64_t)sizeof *budgets;
    int64_t *at = lh_scratch_alloc(&ev->exec, LH_EVICT_AT_ONCE * layer_bytes);
    lh_exec_put(&ev->exec, at, budgets, n * layer_bytes);
    lh_mark_best(ev, jobs, n, ev->stages.heads, (lh_counts){.at = at + h->kv_first, .step = h->kv_heads},
                 LH_ENTRY_DROP);
}
