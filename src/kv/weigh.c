/* The second stage of CriticalKV (arXiv 2502.03805, algorithm 1): scores times projected norms. Only norms that the
 * selection turns on are made: first those of the best by what is known, then of all whose bound reaches the score that
 * the last of the chosen has by then. Every other entry is behind the chosen ones whatever its norm is. */
#include "kv/kv_impl.h"

static const float EPSILON = 1e-4f; /* added to scores */

/* Scores by what is known of the norms. */
static lh_status weigh(lh_kv *kv, const lh_eviction *e, const float *scores)
{
    return kv->place.ops->weigh_scores(kv->place.stream,
                                       &(lh_weigh_scores_args){.y = kv->work.at[LH_WORK_SECOND],
                                                               .x = scores,
                                                               .norms = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                               .len = e->pool->view.len,
                                                               .heads = kv->shape.heads.kv_count,
                                                               .ld = kv->work.ld,
                                                               .add = EPSILON});
}

static lh_status want(lh_kv *kv, const lh_eviction *e, const int64_t *counts, lh_want_kind kind)
{
    return kv->place.ops->want_norms(kv->place.stream,
                                     &(lh_want_norms_args){.wanted = kv->work.at[LH_WORK_WANTED],
                                                           .scores = kv->work.at[LH_WORK_SECOND],
                                                           .norms = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                           .state = kv->work.at[LH_WORK_STATE],
                                                           .kv = &e->pool->view,
                                                           .counts = counts,
                                                           .ld = kv->work.ld,
                                                           .kind = kind});
}

/* Norms behind the columns of each query head of this rank: rows of LH_WORK_NORMS, where the row of query head 0 of the
 * ranks' is first. */
static lh_status project(lh_kv *kv, const lh_eviction *e)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_kv_projection *o = &kv->shape.projections[e->layer];
    return kv->place.ops->projected_norms(
        kv->place.stream,
        &(lh_projected_norms_args){
            .y = (float *)kv->work.at[LH_WORK_NORMS] + (h->split ? h->q_first * e->cols : 0),
            .kv = &e->pool->view,
            .map = {.heads = h->q_count, .group = h->group, .first = h->q_first - h->kv_first * h->group},
            .wanted = kv->work.at[LH_WORK_WANTED],
            .w = o->w,
            .type = o->type,
            .out = kv->shape.hidden,
            .w_ld = o->ld,
            .y_ld = e->cols,
            .ld = kv->work.ld});
}

/* Means over the groups of this rank's KV heads go with the entries. */
static lh_status put_means(lh_kv *kv, const lh_eviction *e)
{
    const lh_heads *h = &kv->shape.heads;
    float *rows = kv->work.at[LH_WORK_NORMS], *means = rows + (h->split ? h->heads : h->q_count) * e->cols;
    LH_TRY(kv->place.ops->group_reduce(
        kv->place.stream, &(lh_group_reduce_args){.y = means,
                                                  .x = rows + (h->split ? h->kv_first * h->group * e->cols : 0),
                                                  .heads = h->kv_count,
                                                  .group = h->group,
                                                  .cols = e->cols,
                                                  .y_ld = e->cols,
                                                  .x_ld = e->cols,
                                                  .kind = LH_GROUP_MEAN,
                                                  .factor = 1.0f}));
    LH_TRY(kv->place.ops->put_stats(kv->place.stream,
                                    &(lh_put_stats_args){.y = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                         .x = means,
                                                         .kv = &e->pool->view,
                                                         .only = kv->work.at[LH_WORK_WANTED],
                                                         .ld = e->cols,
                                                         .only_ld = kv->work.ld}));
    return LH_OK;
}

/* Collective where groups are split. Norms that are wanted, and scores by them. */
static lh_status learn(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local)
{
    if (*local == LH_OK) *local = project(kv, e);
    if (kv->shape.heads.split)
        LH_TRY(lh_kv_exchange_heads(kv, kv->work.at[LH_WORK_NORMS], e->cols * (int64_t)sizeof(float), local));
    if (*local == LH_OK) *local = put_means(kv, e);
    if (*local == LH_OK) *local = weigh(kv, e, scores);
    return LH_OK;
}

lh_status lh_kv_weigh(lh_kv *kv, const lh_eviction *e, const float *scores, const lh_second_counts *counts,
                      lh_status *local)
{
    if (*local == LH_OK && kv->clock.seen) *local = lh_kv_save_stats(kv, e->layer);
    if (*local == LH_OK) *local = weigh(kv, e, scores);
    /* more than can stay: the last of the chosen then has a score that few bounds reach */
    if (*local == LH_OK) *local = want(kv, e, counts->more, LH_WANT_BEST);
    LH_TRY(learn(kv, e, scores, local));
    if (*local == LH_OK) *local = want(kv, e, counts->rest, LH_WANT_RIVALS);
    LH_TRY(learn(kv, e, scores, local));
    return LH_OK;
}
