/* Budgets over all layers: the competing entries of all heads of all layers are ranked together. Prefill goes layer by
 * layer, and a layer's entries go as soon as so many better ones are there that they cannot stay; the threshold only
 * rises. So memory is bounded by about twice what stays and the one layer under way, and in the end what stays is what
 * a flat selection over whole layers would have kept. Scores go with their entries meanwhile. */
#include <string.h>

#include "kv/kv_impl.h"

struct lh_over_layers {
    lh_eviction *e; /* [layers] those that have come so far and whose entries compete */
    int64_t sheets;
    lh_grant *grants;                            /* [layers] */
    int64_t *room, *bases, *budgets, *on_device; /* [layers, kv_heads]; the last as the device has it */
};

lh_status lh_kv_open_over_layers(lh_kv *kv)
{
    int64_t cells = kv->shape.layers * kv->shape.heads.kv_heads;
    lh_over_layers *o = NULL;
    LH_TRY(lh_calloc(&o, 1, sizeof *o));
    kv->over = o;
    LH_TRY(lh_calloc(&o->e, kv->shape.layers, sizeof *o->e));
    LH_TRY(lh_calloc(&o->grants, kv->shape.layers, sizeof *o->grants));
    LH_TRY(lh_calloc(&o->room, 4 * cells, sizeof *o->room));
    o->bases = o->room + cells;
    o->budgets = o->room + 2 * cells;
    o->on_device = o->room + 3 * cells;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) kv->layers[l].pool.form.stats = kv->layout.count;
    return LH_OK;
}

void lh_kv_close_over_layers(lh_kv *kv)
{
    if (!kv->over) return;
    lh_free(kv->over->e);
    lh_free(kv->over->grants);
    lh_free(kv->over->room);
    lh_free(kv->over);
    kv->over = NULL;
}

lh_status lh_kv_show_scores(lh_kv *kv, const lh_eviction *e, const float **scores)
{
    *scores = kv->work.at[LH_WORK_RAW];
    LH_TRY(lh_kv_classify(kv, e));
    LH_TRY(kv->place.ops->finish_scores(kv->place.stream,
                                        &(lh_finish_scores_args){.y = kv->work.at[LH_WORK_RAW],
                                                                 .x = lh_kv_stat(&e->pool->view, kv->layout.score),
                                                                 .kv = &e->pool->view,
                                                                 .ld = kv->work.ld,
                                                                 .parts = 1,
                                                                 .kind = LH_FINISH_PLAIN,
                                                                 .factor = 1.0f}));
    return LH_OK;
}

/* Whether no layer behind this one competes. */
static int is_last(const lh_kv *kv, int64_t layer)
{
    for (int64_t l = layer + 1; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) return 0;
    return 1;
}

/* Competing entries that all layers together may keep. */
static int64_t all_of(const lh_kv *kv)
{
    int64_t sum = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) sum += kv->layers[l].plan.protect.base;
    return sum * kv->shape.heads.kv_heads;
}

/* What the device says of the sheets so far, into o->budgets. */
static lh_status fetch_budgets(lh_kv *kv)
{
    lh_over_layers *o = kv->over;
    int64_t heads = kv->shape.heads.kv_heads, cells = o->sheets * heads;
    LH_TRY(lh_stream_copy(kv->place.stream, o->on_device, kv->work.at[LH_WORK_BUDGETS],
                          cells * (int64_t)sizeof *o->on_device, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    for (int64_t i = 0; i < cells; i++) o->budgets[i] = o->on_device[i % heads * o->sheets + i / heads];
    return LH_OK;
}

/* Collective. Before the last layer: what may still be among the best. A head's final share is at most the larger of
 * its share of the flat top and its layer's base, and one for what rounding leaves. */
static lh_status share_meanwhile(lh_kv *kv, lh_share *q, lh_status *local)
{
    lh_over_layers *o = kv->over;
    q->share = (lh_fraction){1, 1};
    LH_TRY(lh_kv_flat_top(kv, q, local));
    if (*local == LH_OK) *local = fetch_budgets(kv);
    for (int64_t i = 0; i < o->sheets * kv->shape.heads.kv_heads; i++)
        o->budgets[i] = lh_min_i64(o->room[i], lh_max_i64(o->budgets[i], o->bases[i]) + 1);
    return LH_OK;
}

/* Collective. With all layers: what stays. */
static lh_status share_at_last(lh_kv *kv, lh_share *q, lh_status *local)
{
    lh_over_layers *o = kv->over;
    lh_grant *grants = kv->work.at[LH_WORK_GRANTS];
    for (int64_t s = 0; s < o->sheets; s++) {
        lh_safety safety = lh_policy_safety(&kv->fixed, &o->e[s].protect);
        o->grants[s] = (lh_grant){safety.floor, safety.sure};
        q->share = safety.share;
    }
    if (*local == LH_OK)
        *local =
            lh_stream_copy(kv->place.stream, grants, o->grants, o->sheets * (int64_t)sizeof *grants, LH_COPY_TO_DEVICE);
    q->grants = grants;
    LH_TRY(lh_kv_flat_top(kv, q, local));
    if (*local == LH_OK) *local = fetch_budgets(kv);
    return LH_OK;
}

/* Entries of one layer that stay; `slack`: free slots behind them. */
static lh_status keep(lh_kv *kv, int64_t sheet, int is_new, lh_status *local)
{
    lh_status st = LH_OK;
    lh_over_layers *o = kv->over;
    const lh_heads *h = &kv->shape.heads;
    lh_eviction *e = &o->e[sheet];
    int64_t *own = kv->traffic.kept, *budgets = o->budgets + sheet * h->kv_heads;
    const float *scores = NULL;
    memcpy(own, budgets + h->kv_first, (size_t)h->kv_count * sizeof *own);
    LH_TRY_DONE(lh_kv_show_scores(kv, e, &scores));
    LH_TRY_DONE(lh_kv_put_counts(kv, own));
    LH_TRY_DONE(lh_kv_mark_best(kv, e, scores, kv->work.at[LH_WORK_COUNTS], LH_ENTRY_DROP));
    if (is_new) {
        LH_TRY_DONE(lh_kv_compact_out(kv, e, own));
        e->pool = &kv->layers[e->layer].pool;
        goto done;
    }
    LH_TRY_DONE(kv->place.ops->compact(kv->place.stream, &(lh_compact_args){.dst = &e->pool->view,
                                                                            .src = &e->pool->view,
                                                                            .state = kv->work.at[LH_WORK_STATE],
                                                                            .ld = kv->work.ld,
                                                                            .kind = LH_COMPACT_IN_ORDER}));
    LH_TRY_DONE(lh_pool_pull_len(e->pool, kv->place.stream));
    for (int64_t g = 0; g < h->kv_count; g++) own[g] = e->pool->len[g] + kv->layers[e->layer].plan.slack;
    LH_TRY_DONE(lh_pool_resize(e->pool, kv->place.stream, own));
done:
    if (st != LH_OK) *local = st;
    return LH_OK;
}

/* Scores are of no use any more. */
static void forget_scores(lh_kv *kv)
{
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_pool *pool = &kv->layers[l].pool;
        lh_device_free(lh_kv_device(kv), pool->view.stats);
        pool->view.stats = NULL;
        pool->view.stat_count = pool->form.stats = 0;
    }
}

lh_status lh_kv_settle_over_layers(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    lh_over_layers *o = kv->over;
    int64_t heads = kv->shape.heads.kv_heads, first = o->sheets * heads, held = 0;
    lh_scores scores = {0};
    if (*local == LH_OK) *local = lh_kv_classify(kv, e);
    LH_TRY(lh_kv_score(kv, e, local, &scores));
    if (*local == LH_OK)
        *local = kv->place.ops->put_stats(kv->place.stream,
                                          &(lh_put_stats_args){.y = lh_kv_stat(&e->pool->view, kv->layout.score),
                                                               .x = scores.heads,
                                                               .kv = &e->pool->view,
                                                               .last = LH_ALL_ENTRIES,
                                                               .ld = kv->work.ld});
    o->e[o->sheets++] = *e;
    for (int64_t g = 0; g < heads; g++) {
        o->room[first + g] = e->room[g];
        o->bases[first + g] = e->protect.base;
    }
    for (int64_t i = 0; i < o->sheets * heads; i++) held += o->room[i];
    lh_share q = {.sheets = o->sheets, .e = o->e, .most = all_of(kv)};
    int last = is_last(kv, e->layer);
    if (last)
        LH_TRY(share_at_last(kv, &q, local));
    else if (held > q.most)
        LH_TRY(share_meanwhile(kv, &q, local));
    else
        memcpy(o->budgets, o->room, (size_t)(o->sheets * heads) * sizeof *o->budgets);
    for (int64_t s = 0; s < o->sheets; s++) {
        int shrinks = memcmp(o->budgets + s * heads, o->room + s * heads, (size_t)heads * sizeof *o->room) != 0;
        if (*local == LH_OK && (shrinks || s == o->sheets - 1)) LH_TRY(keep(kv, s, s == o->sheets - 1, local));
    }
    memcpy(o->room, o->budgets, (size_t)(o->sheets * heads) * sizeof *o->room);
    if (last) forget_scores(kv);
    return LH_OK;
}
