#include <assert.h>
#include <string.h>

#include "kv/kv_impl.h"

/* Work space for the evictions of the whole prefill; the positions of the observed rows are the prompt's last. */
static lh_status make_work(lh_kv *kv)
{
    lh_status st = LH_OK;
    lh_stream *stream = kv->place.stream;
    int32_t *positions = NULL;
    lh_work_request need = {.ld = kv->prompt.tokens, .rows = lh_policy_rows(&kv->fixed, kv->prompt.tokens)};
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        need.ranked |= kv->layers[l].plan.ranked;
        need.scored |= kv->layers[l].plan.scored;
    }
    lh_work_size(&kv->work, &kv->shape, &kv->fixed, &need);
    LH_TRY(lh_work_alloc(&kv->work, stream));
    LH_TRY(lh_calloc(&positions, kv->work.rows, sizeof *positions));
    for (int64_t r = 0; r < kv->work.rows; r++) positions[r] = (int32_t)(kv->prompt.tokens - kv->work.rows + r);
    LH_TRY(
        lh_stream_copy(stream, kv->work.at[LH_WORK_ROWS], positions, kv->work.bytes[LH_WORK_ROWS], LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(stream));
done:
    lh_free(positions);
    return st;
}

static lh_status alloc_even(lh_kv *kv, lh_pool *pool, int64_t cap)
{
    lh_status st = LH_OK;
    int64_t *caps = NULL;
    LH_TRY(lh_calloc(&caps, pool->view.heads, sizeof *caps));
    for (int64_t h = 0; h < pool->view.heads; h++) caps[h] = cap;
    LH_TRY(lh_pool_alloc(pool, kv->place.stream, caps));
done:
    lh_free(caps);
    return st;
}

lh_status lh_kv_begin(lh_kv *kv, int64_t tokens, int64_t more)
{
    lh_status st = LH_OK;
    if (tokens < 1 || tokens > INT32_MAX || more < 0)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens and %lld more cannot be cached: it must have 1 to 2^31 - 1 tokens",
                (long long)tokens, (long long)more);
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = tokens, .more = more}));
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.evicts) kv->last_evicted = l;
    if (kv->last_evicted >= 0) LH_TRY(make_work(kv));
done:
    return st;
}

lh_status lh_kv_prefill_begin(lh_kv *kv, int64_t layer, lh_ragged **view)
{
    lh_status st = LH_OK;
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_pool *pool = &kv->layers[layer].pool;
    if (plan->evicts) {
        pool = &kv->scratch;
        if (!pool->slots) LH_TRY(alloc_even(kv, pool, kv->prompt.tokens));
        memset(pool->len, 0, (size_t)pool->view.heads * sizeof *pool->len);
        LH_TRY(lh_pool_push_len(pool, kv->place.stream));
    } else {
        LH_TRY(alloc_even(kv, pool, plan->kept + plan->slack));
    }
    *view = &pool->view;
done:
    return st;
}

int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer)
{
    if (kv->clock.seen) return INT64_MAX;
    return kv->prompt.tokens - (kv->layers[layer].plan.scored ? kv->work.rows : 0);
}

/* Log-sum-exps of `rows` rows to the rank's own block, one KV head after the other: column_sums wants the heads of a
 * call beside each other. */
static lh_status keep_lse(lh_kv *kv, const float *lse, int64_t row, int64_t rows)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    float *own = (float *)kv->work.at[LH_WORK_LSE] + (h->split ? kv->work.rows * h->q_first : 0);
    int64_t at = 0;
    for (int64_t g = 0; g < (h->split ? h->kv_count : 1); g++) {
        int64_t n = h->q_count;
        if (h->split) n = (h->kv_first + g + 1) * h->group - h->q_first - at;
        if (n > h->q_count - at) n = h->q_count - at;
        float *dst = own + kv->work.rows * at + row * n;
        int dense = n == h->q_count;
        for (int64_t r = 0; r < (dense ? 1 : rows); r++)
            LH_TRY(lh_stream_copy(kv->place.stream, dst + r * n, lse + r * h->q_count + at,
                                  (dense ? rows : 1) * n * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
        at += n;
    }
done:
    return st;
}

lh_status lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t from = lh_kv_wants_rows(kv, layer), width = h->q_count * kv->shape.head_dim;
    int64_t skip = from > rows->first ? from - rows->first : 0, count = rows->tokens - skip;
    if (count <= 0) goto done;
    int64_t row = rows->first + skip - from;
    assert(row + count <= kv->work.rows);
    float *dst = (float *)kv->work.at[LH_WORK_Q] + (h->split ? kv->work.rows * h->q_first * kv->shape.head_dim : 0);
    int dense = rows->q_ld == width;
    for (int64_t r = 0; r < (dense ? 1 : count); r++)
        LH_TRY(lh_stream_copy(kv->place.stream, dst + (row + r) * width, rows->q + (skip + r) * rows->q_ld,
                              (dense ? count : 1) * width * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
    LH_TRY(keep_lse(kv, rows->lse + skip * h->q_count, row, count));
done:
    return st;
}

/* ---- the end of a layer ---- */

/* Collective. What every head keeps of its competing entries, here all of the same number. budgets: [kv_heads]. */
static lh_status share_out(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local, int64_t *budgets)
{
    lh_status st = LH_OK;
    const lh_protection *p = &e->protect;
    int64_t heads = kv->shape.heads.kv_heads, *room = kv->traffic.room;
    for (int64_t h = 0; h < heads; h++) budgets[h] = p->base;
    if (kv->fixed.heads == LH_HEADS_UNIFORM) goto done;
    for (int64_t h = 0; h < heads; h++) room[h] = e->seen - e->visible_from - p->sinks - p->recents;
    LH_TRY(lh_kv_share(kv, &(lh_share){.e = e, .scores = scores, .room = room}, local, budgets));
done:
    return st;
}

/* Collective. The states of all entries of the layer in the scratch; counts[h]: competing entries that stay. */
static lh_status choose(lh_kv *kv, const lh_eviction *e, lh_status *local, int64_t *counts)
{
    lh_status st = LH_OK;
    const lh_layer_plan *plan = &kv->layers[e->layer].plan;
    int64_t *budgets = kv->traffic.share;
    const float *scores = kv->work.at[LH_WORK_RAW];
    if (*local == LH_OK) *local = lh_kv_classify(kv, e);
    if (!plan->ranked) goto done;
    if (plan->scored)
        LH_TRY(lh_kv_observe(kv, e, local, &scores));
    else if (*local == LH_OK)
        *local = kv->place.ops->position_scores(
            kv->place.stream,
            &(lh_position_scores_args){.y = kv->work.at[LH_WORK_RAW], .kv = &e->pool->view, .ld = kv->work.ld});
    LH_TRY(share_out(kv, e, scores, local, budgets));
    memcpy(counts, budgets + kv->shape.heads.kv_first, (size_t)e->pool->view.heads * sizeof *counts);
    if (*local == LH_OK) *local = lh_kv_select(kv, e, scores, counts);
done:
    return st;
}

/* The entries that stay, from the scratch into a pool of the layer's own. */
static lh_status compact(lh_kv *kv, const lh_eviction *e, int64_t *counts)
{
    lh_status st = LH_OK;
    const lh_layer_plan *plan = &kv->layers[e->layer].plan;
    lh_pool *pool = &kv->layers[e->layer].pool;
    int64_t fixed = plan->kept - (plan->ranked ? plan->protect.base : 0);
    for (int64_t h = 0; h < pool->view.heads; h++) counts[h] += fixed + plan->slack;
    LH_TRY(lh_pool_alloc(pool, kv->place.stream, counts));
    LH_TRY(kv->place.ops->compact(kv->place.stream, &(lh_compact_args){.dst = &pool->view,
                                                                       .src = &e->pool->view,
                                                                       .state = kv->work.at[LH_WORK_STATE],
                                                                       .ld = kv->work.ld,
                                                                       .kind = LH_COMPACT_IN_ORDER}));
    LH_TRY(lh_pool_pull_len(pool, kv->place.stream));
    for (int64_t h = 0; h < pool->view.heads; h++)
        if (pool->len[h] != counts[h] - plan->slack)
            LH_FAIL(LH_EINTERNAL, "layer %lld: a head keeps %lld entries where %lld were chosen", (long long)e->layer,
                    (long long)pool->len[h], (long long)(counts[h] - plan->slack));
done:
    return st;
}

static lh_status check_appended(lh_kv *kv, int64_t layer, lh_pool *pool)
{
    lh_status st = LH_OK;
    LH_TRY(lh_pool_pull_len(pool, kv->place.stream));
    for (int64_t h = 0; h < pool->view.heads; h++)
        if (pool->len[h] != kv->prompt.tokens)
            LH_FAIL(LH_EINTERNAL, "layer %lld holds %lld of %lld tokens at the end of its prefill", (long long)layer,
                    (long long)pool->len[h], (long long)kv->prompt.tokens);
done:
    return st;
}

lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer)
{
    lh_status st = LH_OK, local = LH_OK;
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_pool *pool = plan->evicts ? &kv->scratch : &kv->layers[layer].pool;
    int64_t *counts = kv->traffic.kept;
    double start = lh_kv_now();
    lh_eviction e = {.layer = layer,
                     .pool = pool,
                     .seen = kv->prompt.tokens,
                     .visible_from = plan->visible_from,
                     .protect = plan->protect};
    local = check_appended(kv, layer, pool);
    if (plan->evicts) {
        memset(counts, 0, (size_t)pool->view.heads * sizeof *counts);
        LH_TRY(choose(kv, &e, &local, counts));
        if (local == LH_OK) local = compact(kv, &e, counts);
    }
    if (layer == kv->last_evicted) {
        lh_pool_free(&kv->scratch, kv->place.stream);
        lh_work_free(&kv->work, kv->place.stream);
    }
    if (local == LH_OK && kv->listener.kept)
        local = kv->listener.kept(kv->listener.self, layer, &kv->layers[layer].pool.view);
    if (layer == kv->shape.layers - 1) kv->clock.seen = kv->prompt.tokens;
    kv->evict_s += lh_kv_now() - start;
    LH_TRY(lh_comm_agree(kv->place.comm, local));
done:
    return st;
}
