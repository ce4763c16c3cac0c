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
                                                                         .recent_from = recent_from});
}

lh_status lh_kv_put_counts(lh_kv *kv, const int64_t *counts)
{
    return lh_stream_put(kv->place.stream, kv->work.at[LH_WORK_COUNTS], counts,
                         kv->shape.heads.kv_count * (int64_t)sizeof *counts);
}

lh_status lh_kv_mark_best(lh_kv *kv, const lh_eviction *e, const float *scores, const int64_t *counts,
                          lh_entry_state others)
{
    return kv->place.ops->select_top(kv->place.stream, &(lh_select_top_args){.state = kv->work.at[LH_WORK_STATE],
                                                                             .scores = scores,
                                                                             .kv = &e->pool->view,
                                                                             .counts = counts,
                                                                             .ld = kv->work.ld,
                                                                             .others = others});
}

/* As many entries as LH_WORK_COUNTS says, in one stage or in two. */
static lh_status mark(lh_kv *kv, const lh_eviction *e, const lh_scores *scores)
{
    int64_t heads = e->pool->view.heads, *counts = kv->work.at[LH_WORK_COUNTS];
    lh_split_counts_args stages = {.first = counts + heads,
                                   .rest = counts + 2 * heads,
                                   .counts = counts,
                                   .stage = lh_policy_stage(&kv->fixed, &e->protect),
                                   .heads = heads};
    if (!scores->second) return lh_kv_mark_best(kv, e, scores->first, counts, LH_ENTRY_DROP);
    LH_TRY(kv->place.ops->split_counts(kv->place.stream, &stages));
    LH_TRY(lh_kv_mark_best(kv, e, scores->first, stages.first, LH_ENTRY_COMPETES));
    return lh_kv_mark_best(kv, e, scores->second, stages.rest, LH_ENTRY_DROP);
}

/* What this rank's heads keep of their competing entries where no scores are needed for it: into LH_WORK_COUNTS, and
 * on the host. */
static lh_status count_by_plan(lh_kv *kv, const lh_eviction *e, int64_t *counts)
{
    int64_t *budgets = kv->traffic.share;
    const lh_heads *h = &kv->shape.heads;
    for (int64_t g = 0; g < h->kv_heads; g++) budgets[g] = e->protect.base;
    if (kv->fixed.budgets.heads == LH_HEADS_PROFILE)
        lh_policy_heads(&(lh_heads_request){.layer = e->layer,
                                            .heads = h->kv_heads,
                                            .protect = &e->protect,
                                            .room = e->room,
                                            .profile = kv->head_profile},
                        budgets);
    if (counts) memcpy(counts, budgets + h->kv_first, (size_t)h->kv_count * sizeof *counts);
    return lh_kv_put_counts(kv, budgets + h->kv_first);
}

static lh_status fetch_counts(lh_kv *kv, int64_t *counts)
{
    LH_TRY(lh_stream_copy(kv->place.stream, counts, kv->work.at[LH_WORK_COUNTS],
                          kv->shape.heads.kv_count * (int64_t)sizeof *counts, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    return LH_OK;
}

lh_status lh_kv_choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts)
{
    int adaptive = kv->fixed.budgets.heads == LH_HEADS_ADAPTIVE;
    lh_scores scores = {0};
    if (counts) memset(counts, 0, (size_t)e->pool->view.heads * sizeof *counts);
    if (*local == LH_OK) *local = lh_kv_classify(kv, e);
    if (!e->ranked) return LH_OK;
    LH_TRY(lh_kv_score(kv, e, local, &scores));
    if (adaptive) LH_TRY(lh_kv_share(kv, e, scores.heads, local));
    if (!adaptive && *local == LH_OK) *local = count_by_plan(kv, e, counts);
    if (*local == LH_OK) *local = mark(kv, e, &scores);
    if (adaptive && counts && *local == LH_OK) *local = fetch_counts(kv, counts);
    return LH_OK;
}
