/* One keep set for all heads of a layer (TOVA): scores become their mean over the heads of all ranks. Sums are of
 * integers, so that every rank and every number of ranks gets the same bits. */
#include "evict/evict_impl.h"

void lh_join_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_exec *x = &ev->exec;
    const lh_heads *h = &ev->shape.heads;
    int64_t ld = ev->ld, *sums = ev->at[LH_SPACE_JOINT], skip = h->counted_first - h->kv_first;
    float *top = (float *)(void *)(sums + ld);
    LH_RUN(x, max_score, .y = top, .scores = scores, .state = ev->at[LH_SPACE_STATE], .len = job->entries->len,
           .heads = h->kv_count, .ld = ld);
    lh_exec_allreduce(x, top, 1, LH_F32, LH_MAX);
    LH_RUN(x, add_heads, .sums = sums, .scores = scores + skip * ld, .len = job->entries->len + skip, .top = top,
           .heads = h->counted_count, .cols = job->cols, .ld = ld, .all_heads = h->kv_heads);
    lh_exec_allreduce(x, sums, job->cols, LH_I64, LH_SUM);
    LH_RUN(x, share_scores, .y = scores, .sums = sums, .top = top, .heads = h->kv_count, .cols = job->cols, .ld = ld,
           .all_heads = h->kv_heads);
}
