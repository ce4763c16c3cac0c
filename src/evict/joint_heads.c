/* One keep set for all heads of a layer (TOVA): scores become their mean over the heads of all ranks. Sums are of
 * integers, so that every rank and every number of ranks gets the same bits. */
#include "evict/evict_impl.h"

void lh_join_heads(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by)
{
    const lh_exec *x = &ev->exec;
    const lh_heads *h = &ev->shape.heads;
    const int64_t ld = ev->ld, step = by.step, skip = h->counted_first - h->kv_first, mark = lh_scratch_mark(x);
    int64_t *sums = lh_scratch_alloc(x, n * ld * (int64_t)sizeof *sums), cols = 0;
    float *scores = by.at, *top = lh_scratch_floats(ev, n);
    for (int64_t i = 0; i < n; i++) cols = lh_max_i64(cols, jobs[i].cols);
    LH_RUN(x, max_score, .y = top, .scores = scores, .state = ev->state, .kv = lh_views_of(ev, jobs, n), .batch = n,
           .ld = ld, .scores_step = step);
    lh_exec_allreduce(x, top, n, LH_F32, LH_MAX);
    LH_RUN(x, add_heads, .sums = sums, .scores = scores + skip * ld, .kv = lh_counted_views_of(ev, jobs, n), .top = top,
           .batch = n, .cols = cols, .ld = ld, .scores_step = step, .all_heads = h->kv_heads);
    lh_exec_allreduce(x, sums, n * cols, LH_I64, LH_SUM);
    LH_RUN(x, share_scores, .y = scores, .sums = sums, .top = top, .batch = n, .heads = h->kv_count, .cols = cols,
           .ld = ld, .y_step = step, .all_heads = h->kv_heads);
    lh_scratch_release(x, mark);
}
