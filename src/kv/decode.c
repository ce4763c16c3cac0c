#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view)
{
    lh_status st = LH_OK;
    lh_pool *pool = &kv->layers[layer].pool;
    int64_t *caps = kv->traffic.kept, small = 0;
    for (int64_t h = 0; h < pool->view.heads; h++) small |= pool->len[h] + tokens > pool->cap[h];
    /* once in a while, not at every step: an eighth more */
    for (int64_t h = 0; h < pool->view.heads; h++) {
        int64_t need = pool->len[h] + tokens + (tokens == 1 ? pool->len[h] / 8 + 64 : 0);
        caps[h] = need > pool->cap[h] ? need : pool->cap[h]; /* a mark may want back what was evicted */
    }
    if (small) LH_TRY(lh_pool_resize(pool, kv->place.stream, caps));
    *view = &pool->view;
done:
    return st;
}

/* Work space for evictions of entries that are scored by position, for heads as long as they are now. */
static lh_status make_work(lh_kv *kv)
{
    lh_status st = LH_OK;
    lh_work_request need = {.ranked = kv->fixed.evicts && kv->fixed.every > 0};
    for (int64_t l = 0; l < kv->shape.layers; l++)
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
            if (kv->layers[l].pool.cap[h] > need.ld) need.ld = kv->layers[l].pool.cap[h];
    if (need.ld <= kv->work.ld) goto done;
    lh_work_free(&kv->work, kv->place.stream);
    lh_work_size(&kv->work, &kv->shape, &kv->fixed, &need);
    LH_TRY(lh_work_alloc(&kv->work, kv->place.stream));
done:
    return st;
}

static lh_status compact(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    LH_TRY(lh_kv_save_layer(kv, e->layer));
    LH_TRY(kv->place.ops->compact(kv->place.stream, &(lh_compact_args){.dst = &e->pool->view,
                                                                       .src = &e->pool->view,
                                                                       .state = kv->work.at[LH_WORK_STATE],
                                                                       .ld = kv->work.ld,
                                                                       .kind = LH_COMPACT_FILL}));
    LH_TRY(lh_pool_pull_len(e->pool, kv->place.stream));
done:
    return st;
}

/* What the next row cannot see goes. */
static lh_status drop_unseen(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    lh_eviction all = *e;
    all.protect = (lh_protection){.budget = INT64_MAX};
    if (e->visible_from == 0) goto done;
    LH_TRY(lh_kv_classify(kv, &all));
    LH_TRY(compact(kv, &all));
done:
    return st;
}

static lh_status evict_layer(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    int64_t *counts = kv->traffic.kept, longest = 0;
    float *scores = kv->work.at[LH_WORK_RAW];
    for (int64_t h = 0; h < e->pool->view.heads; h++) {
        counts[h] = e->protect.base;
        if (e->pool->len[h] > longest) longest = e->pool->len[h];
    }
    if (longest <= e->protect.budget) goto done;
    LH_TRY(lh_kv_classify(kv, e));
    LH_TRY(kv->place.ops->position_scores(
        kv->place.stream, &(lh_position_scores_args){.y = scores, .kv = &e->pool->view, .ld = kv->work.ld}));
    LH_TRY(lh_kv_select(kv, e, scores, counts));
    LH_TRY(compact(kv, e));
done:
    return st;
}

/* All that this rank has to do; no collective. */
static lh_status evict(lh_kv *kv, int by_policy)
{
    lh_status st = LH_OK;
    LH_TRY(make_work(kv));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_eviction e = {.layer = l,
                         .pool = &kv->layers[l].pool,
                         .seen = kv->clock.seen,
                         .visible_from = lh_kv_visible_from(&kv->shape, l, kv->clock.seen)};
        e.protect = lh_policy_protect(
            &kv->fixed,
            &(lh_protect_request){.budget = kv->budgets[l], .seen = e.seen, .visible_from = e.visible_from});
        LH_TRY(drop_unseen(kv, &e));
        if (by_policy) LH_TRY(evict_layer(kv, &e));
    }
done:
    return st;
}

lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    lh_status st = LH_OK;
    double start = lh_kv_now();
    int64_t every = kv->fixed.evicts ? kv->fixed.every : 0, before = kv->clock.steps;
    int slides = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) kv->layers[l].pool.len[h] += tokens;
        slides |= lh_kv_slides(&kv->shape, l);
    }
    kv->clock.seen += tokens;
    if (what == LH_KV_STEP) kv->clock.steps += tokens;
    int due = every && (what == LH_KV_BLOCK || kv->clock.steps / every > before / every);
    if (!due && !slides) goto done;
    if (due && !kv->clock.budgets_made) lh_kv_make_budgets(kv, kv->clock.seen);
    kv->clock.evictions += due;
    LH_TRY(lh_comm_agree(kv->place.comm, evict(kv, due)));
done:
    kv->evict_s += lh_kv_now() - start;
    return st;
}
