/* The keep mask of a layer: made by position, then by scores. */
#include <assert.h>

#include "evict/adaptive_heads.h"
#include "evict/evict_impl.h"

lh_keep lh_evict_keep(const lh_evictor *ev)
{
    return (lh_keep){.state = ev->at[LH_SPACE_STATE], .ld = ev->ld};
}

void lh_evict_put_keep(lh_evictor *ev, const uint8_t *state)
{
    lh_exec_put(&ev->exec, ev->at[LH_SPACE_STATE], state, ev->shape.heads.kv_count * ev->ld);
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

void lh_evict_classify(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    lh_position_lines lines[LH_EVICT_AT_ONCE];
    assert(n <= ev->layers || !lh_exec_ok(&ev->exec));
    for (int64_t i = 0; i < n; i++) lines[i] = lines_of(&jobs[i]);
    LH_RUN(&ev->exec, classify, .state = ev->at[LH_SPACE_STATE], .kv = lh_views_of(ev, jobs, n), .lines = lines,
           .batch = n, .ld = ev->ld);
}

void lh_mark_best(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_space_part by, lh_counts counts,
                  lh_entry_state others)
{
    LH_RUN(&ev->exec, select_top, .state = ev->at[LH_SPACE_STATE], .scores = ev->at[by], .kv = lh_views_of(ev, jobs, n),
           .counts = counts.at, .batch = n, .ld = ev->ld, .scores_step = ev->bytes[by] / (int64_t)sizeof(float),
           .counts_step = counts.step, .others = others);
}

void lh_evict_mark(lh_evictor *ev, const lh_evict_job *job, const int64_t *counts)
{
    lh_exec_put(&ev->exec, ev->at[LH_SPACE_COUNTS], counts, job->entries->heads * (int64_t)sizeof *counts);
    lh_mark_best(ev, job, 1, LH_SPACE_RAW, (lh_counts){.at = ev->at[LH_SPACE_COUNTS]}, LH_ENTRY_DROP);
}
