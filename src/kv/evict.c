#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_classify(lh_kv *kv, const lh_eviction *e)
{
    const lh_protection *p = &e->protect;
    int64_t recent_from = e->seen - p->recents;
    if (p->budget >= e->seen - e->visible_from) recent_from = e->visible_from; /* all that can be seen stays */
    return kv->place.ops->classify(kv->place.stream, &(lh_classify_args){.state = kv->work.at[LH_WORK_STATE],
                                                                         .kv = &e->pool->view,
                                                                         .ld = kv->work.ld,
                                                                         .visible_from = e->visible_from,
                                                                         .sinks = e->visible_from + p->sinks,
                                                                         .recent_from = recent_from});
}

/* counts[h] competing entries of each head stay, the best by `scores`. */
static lh_status mark_best(lh_kv *kv, const lh_eviction *e, const float *scores, const int64_t *counts)
{
    lh_status st = LH_OK;
    int64_t *device = kv->work.at[LH_WORK_COUNTS];
    LH_TRY(lh_stream_copy(kv->place.stream, device, counts, e->pool->view.heads * (int64_t)sizeof *counts,
                          LH_COPY_TO_DEVICE));
    LH_TRY(kv->place.ops->select_top(kv->place.stream, &(lh_select_top_args){.state = kv->work.at[LH_WORK_STATE],
                                                                             .scores = scores,
                                                                             .kv = &e->pool->view,
                                                                             .counts = device,
                                                                             .ld = kv->work.ld}));
    LH_TRY(lh_stream_sync(kv->place.stream));
done:
    return st;
}

/* Collective for adaptive heads. What every head of the model keeps of its competing entries. */
static lh_status share_out(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local, int64_t *budgets)
{
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++) budgets[g] = e->protect.base;
    if (kv->fixed.heads == LH_HEADS_UNIFORM) return LH_OK;
    return lh_kv_share(kv, &(lh_share){.e = e, .scores = scores}, local, budgets);
}

lh_status lh_kv_choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts)
{
    lh_status st = LH_OK;
    int64_t *budgets = kv->traffic.share;
    const float *scores = kv->work.at[LH_WORK_RAW];
    memset(counts, 0, (size_t)e->pool->view.heads * sizeof *counts);
    if (*local == LH_OK) *local = lh_kv_classify(kv, e);
    if (!e->ranked) goto done;
    if (e->scored)
        LH_TRY(lh_kv_observe(kv, e, local, &scores));
    else if (*local == LH_OK)
        *local = kv->place.ops->position_scores(
            kv->place.stream,
            &(lh_position_scores_args){.y = kv->work.at[LH_WORK_RAW], .kv = &e->pool->view, .ld = kv->work.ld});
    LH_TRY(share_out(kv, e, scores, local, budgets));
    memcpy(counts, budgets + kv->shape.heads.kv_first, (size_t)e->pool->view.heads * sizeof *counts);
    if (*local == LH_OK) *local = mark_best(kv, e, scores, counts);
done:
    return st;
}
