/* Caches that are filled by the prefill of another cache: they read the keys and values of its current layer, count
 * and evict by their own policies, and store kept entries in their own arenas. */
#include <assert.h>
#include <string.h>

#include "kv/kv_impl.h"

/* 1 where two caches count the same of every row. */
static int counts_the_same(const lh_kv *a, const lh_kv *b)
{
    const lh_policy *p = &a->policy, *q = &b->policy;
    return p->score.running && q->score.running && a->stats.score < 0 && !lh_policy_has(p, LH_ALTERS_ROWS) &&
           !lh_policy_has(q, LH_ALTERS_ROWS) && p->score.source == q->score.source && p->rows.n == q->rows.n &&
           !p->rows.percent.digits && !q->rows.percent.digits && memcmp(&a->stats, &b->stats, sizeof a->stats) == 0;
}

lh_status lh_kv_follow(lh_kv *kv, lh_kv *leader)
{
    lh_shared_prefill *s = &leader->shared;
    assert(!s->leader && !kv->shared.follower_count);
    if (!lh_policy_shares_prefill(&kv->policy) || !lh_policy_shares_prefill(&leader->policy))
        LH_FAIL(LH_EINTERNAL,
                "policies '%s' and '%s' cannot share a prefill: one evicts during it, or has probe tokens",
                leader->policy.name, kv->policy.name);
    LH_TRY(lh_realloc(&s->followers, s->follower_count + 1, sizeof *s->followers));
    for (int64_t i = 0; i < s->follower_count && !kv->shared.same_stats; i++)
        if (!s->followers[i]->shared.same_stats && counts_the_same(s->followers[i], kv))
            kv->shared.same_stats = s->followers[i];
    if (kv->shared.same_stats) kv->shared.same_stats->shared.counts_for_others = 1;
    s->followers[s->follower_count++] = kv;
    kv->shared.leader = leader;
    return LH_OK;
}

lh_arena *lh_kv_prefill_arena(lh_kv *kv, int64_t layer)
{
    return kv->shared.leader || kv->layers[layer].plan.evicts ? &kv->scratch : &kv->layers[layer].arena;
}

/* A view of the leader's arena with separate statistics, set to zero. */
static lh_status borrow(lh_kv *kv, const lh_arena *from)
{
    const lh_kv *same = kv->shared.same_stats;
    lh_arena *arena = &kv->scratch;
    int64_t floats = arena->form.stats, bytes = from->slots * floats * (int64_t)sizeof(float);
    float *stats = arena->view.stats;
    if (same) {
        stats = same->scratch.view.stats;
    } else if (floats && arena->slots != from->slots) {
        lh_device_free(lh_kv_device(kv), stats);
        arena->view.stats = stats = NULL;
        LH_TRY(lh_device_alloc(lh_kv_device(kv), &stats, bytes, LH_MEM_KV));
    }
    arena->view = from->view;
    arena->view.stats = stats;
    arena->view.stat_count = floats;
    arena->slots = from->slots;
    memcpy(arena->offset, from->offset, (size_t)from->view.heads * sizeof *arena->offset);
    if (floats && !same) LH_TRY(lh_stream_zero(kv->exec.stream, stats, bytes));
    return LH_OK;
}

lh_status lh_kv_lend(lh_kv *leader, int64_t layer)
{
    for (int64_t i = 0; i < leader->shared.follower_count; i++)
        LH_TRY(borrow(leader->shared.followers[i], lh_kv_prefill_arena(leader, layer)));
    return LH_OK;
}

void lh_kv_take_back(lh_kv *kv)
{
    lh_arena *arena = &kv->scratch;
    float *stats = kv->shared.same_stats ? NULL : arena->view.stats;
    lh_device_free(lh_kv_device(kv), stats);
    arena->view =
        (lh_ragged){.type = kv->shape.types.prompt, .heads = kv->shape.heads.kv_count, .head_dim = kv->shape.head_dim};
    arena->slots = 0;
}
