/* What stays: protected entries, and of the competing ones the best of every head, in one stage or two. */
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
                                                                         .recent_from = recent_from,
                                                                         .enough = e->enough});
}

lh_status lh_kv_mark_best(lh_kv *kv, const lh_eviction *e, const float *scores, const int64_t *counts,
                          lh_entry_state others)
{
    lh_status st = LH_OK;
    int64_t *device = kv->work.at[LH_WORK_COUNTS];
    LH_TRY(lh_stream_put(kv->place.stream, device, counts, e->pool->view.heads * (int64_t)sizeof *counts));
    LH_TRY(kv->place.ops->select_top(kv->place.stream, &(lh_select_top_args){.state = kv->work.at[LH_WORK_STATE],
                                                                             .scores = scores,
                                                                             .kv = &e->pool->view,
                                                                             .counts = device,
                                                                             .ld = kv->work.ld,
                                                                             .others = others}));
done:
    return st;
}

/* Collective where groups are split and norms weigh the second stage. counts[h] entries in one stage, or in two. */
static lh_status mark(lh_kv *kv, const lh_eviction *e, const lh_scores *scores, const int64_t *counts, lh_status *local)
{
    lh_status st = LH_OK;
    lh_entry_state others = scores->second ? LH_ENTRY_COMPETES : LH_ENTRY_DROP;
    int64_t *stage = kv->traffic.above;
    for (int64_t g = 0; g < e->pool->view.heads; g++)
        stage[g] = lh_policy_first_stage(&kv->fixed, &e->protect, counts[g]);
    if (*local == LH_OK) *local = lh_kv_mark_best(kv, e, scores->first, stage, others);
    if (!scores->second) goto done;
    for (int64_t g = 0; g < e->pool->view.heads; g++) stage[g] = counts[g] - stage[g];
    if (kv->fixed.select == LH_SELECT_TWO_STAGE) LH_TRY(lh_kv_weigh(kv, e, scores->first, stage, local));
    if (*local == LH_OK) *local = lh_kv_mark_best(kv, e, scores->second, stage, LH_ENTRY_DROP);
done:
    return st;
}

/* Collective for adaptive heads. What every head of the model keeps of its competing entries. */
static lh_status share_out(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local, int64_t *budgets)
{
    if (kv->fixed.heads == LH_HEADS_ADAPTIVE) return lh_kv_share(kv, e, scores, local, budgets);
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++) budgets[g] = e->protect.base;
    if (kv->fixed.heads == LH_HEADS_PROFILE)
        lh_policy_heads(&(lh_heads_request){.layer = e->layer,
                                            .heads = kv->shape.heads.kv_heads,
                                            .protect = &e->protect,
                                            .room = e->room,
                                            .profile = kv->head_profile},
                        budgets);
    return LH_OK;
}

lh_status lh_kv_choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts)
{
    lh_status st = LH_OK;
    int64_t *budgets = kv->traffic.share;
    lh_scores scores = {0};
    memset(counts, 0, (size_t)e->pool->view.heads * sizeof *counts);
    if (*local == LH_OK) *local = lh_kv_classify(kv, e);
    if (!e->ranked) goto done;
    LH_TRY(lh_kv_score(kv, e, local, &scores));
    LH_TRY(share_out(kv, e, scores.heads, local, budgets));
    memcpy(counts, budgets + kv->shape.heads.kv_first, (size_t)e->pool->view.heads * sizeof *counts);
    LH_TRY(mark(kv, e, &scores, counts, local));
done:
    return st;
}
