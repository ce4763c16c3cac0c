/* Norms that weigh scores: of values (AhaKV's prior, arXiv 2506.03762), or the L1 norms of what the output projection
 * makes of them, averaged over the group's query heads (CriticalKV, arXiv 2502.03805). A value never changes, so its
 * norm is made once, before the first eviction that asks for it, and goes with the entry. */
#include "kv/kv_impl.h"

static lh_status square_values(lh_kv *kv, const lh_eviction *e)
{
    return kv->place.ops->entry_norms(kv->place.stream,
                                      &(lh_entry_norms_args){.y = lh_kv_stat(&e->pool->view, kv->layout.priors),
                                                             .kv = &e->pool->view,
                                                             .last = kv->layers[e->layer].fresh,
                                                             .part = LH_PART_VALUE,
                                                             .kind = LH_NORM_SQUARE});
}

/* Norms of each query head of this rank: rows of LH_WORK_NORMS, where the row of query head 0 of the ranks' is first.
 */
static lh_status project(lh_kv *kv, const lh_eviction *e, int64_t fresh)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_kv_projection *o = &kv->shape.projections[e->layer];
    return kv->place.ops->projected_norms(
        kv->place.stream,
        &(lh_projected_norms_args){
            .y = (float *)kv->work.at[LH_WORK_NORMS] + (h->split ? h->q_first * fresh : 0),
            .kv = &e->pool->view,
            .map = {.heads = h->q_count, .group = h->group, .first = h->q_first - h->kv_first * h->group},
            .last = fresh,
            .ld = fresh,
            .w = o->w,
            .type = o->type,
            .out = kv->shape.hidden,
            .w_ld = o->ld});
}

/* Means over the groups of this rank's KV heads go with the entries. */
static lh_status put_means(lh_kv *kv, const lh_eviction *e, int64_t fresh)
{
    const lh_heads *h = &kv->shape.heads;
    float *rows = kv->work.at[LH_WORK_NORMS], *means = rows + (h->split ? h->heads : h->q_count) * fresh;
    LH_TRY(kv->place.ops->group_reduce(
        kv->place.stream, &(lh_group_reduce_args){.y = means,
                                                  .x = rows + (h->split ? h->kv_first * h->group * fresh : 0),
                                                  .heads = h->kv_count,
                                                  .group = h->group,
                                                  .cols = fresh,
                                                  .y_ld = fresh,
                                                  .x_ld = fresh,
                                                  .kind = LH_GROUP_MEAN,
                                                  .factor = 1.0f}));
    LH_TRY(kv->place.ops->put_stats(kv->place.stream,
                                    &(lh_put_stats_args){.y = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                         .x = means,
                                                         .kv = &e->pool->view,
                                                         .last = fresh,
                                                         .ld = fresh}));
    return LH_OK;
}

lh_status lh_kv_make_norms(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    int64_t fresh = lh_min_i64(kv->layers[e->layer].fresh, e->cols);
    if (kv->layout.norms < 0 || fresh == 0) return LH_OK;
    if (*local == LH_OK && kv->clock.seen) *local = lh_kv_save_stats(kv, e->layer);
    if (kv->fixed.score.value_prior && *local == LH_OK) *local = square_values(kv, e);
    if (kv->fixed.select.kind == LH_SELECT_TWO_STAGE) {
        if (*local == LH_OK) *local = project(kv, e, fresh);
        if (kv->shape.heads.split)
            LH_TRY(lh_kv_exchange_heads(kv, kv->work.at[LH_WORK_NORMS], fresh * (int64_t)sizeof(float), local));
        if (*local == LH_OK) *local = put_means(kv, e, fresh);
    }
    kv->layers[e->layer].fresh = 0;
    return LH_OK;
}
