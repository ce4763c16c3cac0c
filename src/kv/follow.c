/* Caches that are filled by the prefill of another: they see its keys and values of the layer under way, count and
 * evict by their own policy, and keep what stays in pools of their own. */
#include <assert.h>
#include <string.h>

#include "kv/kv_impl.h"

/* Whether two caches count the same of every row. */
static int counts_the_same(const lh_kv *a, const lh_kv *b)
{
    const lh_policy *p = &a->plan, *q = &b->plan;
    return p->score.running && q->score.running && a->layout.score < 0 && !p->score.gain && !q->score.gain &&
           p->score.statistic == q->score.statistic && p->rows.n == q->rows.n && !p->rows.percent.digits &&
           !q->rows.percent.digits && memcmp(&a->layout, &b->layout, sizeof a->layout) == 0;
}

lh_status lh_kv_follow(lh_kv *kv, lh_kv *leader)
{
    assert(!leader->leader && !kv->follower_count);
    if (kv->plan.block || leader->plan.block)
        LH_FAIL(LH_EINTERNAL, "policy '%s' evicts while it prefills: it cannot share a prefill",
                kv->plan.block ? kv->plan.name : leader->plan.name);
    LH_TRY(lh_realloc(&leader->followers, leader->follower_count + 1, sizeof *leader->followers));
    for (int64_t i = 0; i < leader->follower_count && !kv->twin; i++)
        if (!leader->followers[i]->twin && counts_the_same(leader->followers[i], kv)) kv->twin = leader->followers[i];
    leader->followers[leader->follower_count++] = kv;
    kv->leader = leader;
    return LH_OK;
}

lh_pool *lh_kv_prefill_pool(lh_kv *kv, int64_t layer)
{
    return kv->leader || kv->layers[layer].plan.evicts ? &kv->scratch : &kv->layers[layer].pool;
}

/* A view of the leader's pool, with statistics of its own; `slots` of them there are already. */
static lh_status borrow(lh_kv *kv, const lh_pool *from)
{
    lh_pool *pool = &kv->scratch;
    int64_t heads = from->view.heads, floats = pool->form.stats, bytes = from->slots * floats * (int64_t)sizeof(float);
    float *stats = pool->view.stats;
    if (kv->twin) {
        stats = kv->twin->scratch.view.stats;
    } else if (floats && pool->slots != from->slots) {
        lh_device_free(lh_kv_device(kv), stats);
        pool->view.stats = stats = NULL;
        LH_TRY(lh_device_alloc(lh_kv_device(kv), &stats, bytes, LH_MEM_KV));
    }
    pool->view = from->view;
    pool->view.stats = stats;
    pool->view.stat_count = floats;
    pool->slots = from->slots;
    memcpy(pool->offset, from->offset, (size_t)heads * sizeof *pool->offset);
    if (floats && !kv->twin) LH_TRY(lh_stream_zero(kv->place.stream, stats, bytes));
    return LH_OK;
}

lh_status lh_kv_lend(lh_kv *leader, int64_t layer)
{
    for (int64_t i = 0; i < leader->follower_count; i++)
        LH_TRY(borrow(leader->followers[i], lh_kv_prefill_pool(leader, layer)));
    return LH_OK;
}

void lh_kv_take_back(lh_kv *kv)
{
    lh_pool *pool = &kv->scratch;
    float *stats = kv->twin ? NULL : pool->view.stats;
    lh_device_free(lh_kv_device(kv), stats);
    pool->view = (lh_ragged){.type = kv->shape.type, .heads = kv->shape.heads.kv_count, .head_dim = kv->shape.head_dim};
    pool->slots = 0;
}
