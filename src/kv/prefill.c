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
    /* the bins of score summaries count in 32 bits */
    if (kv->plan.heads == LH_HEADS_ADAPTIVE && tokens > UINT32_MAX / kv->shape.heads.kv_count)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens is too long for adaptive heads, %lld of which lie on this rank",
                (long long)tokens, (long long)kv->shape.heads.kv_count);
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

lh_status lh_kv_keep_lse(lh_kv *kv, const float *lse, int64_t row, int64_t rows)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    float *own = (float *)kv->work.at[LH_WORK_LSE] + (h->split ? kv->work.rows * h->q_first : 0);
    int64_t at = 0;
    for (int64_t g = 0; g < (h->split ? h->kv_count : 1); g++) {
        int64_t n = h->q_count; /* column_sums wants the heads of a call beside each other: one KV head after another */
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

/* Rows that the layer's own eviction observes, at the end of its prefill. */
static lh_status keep_rows(lh_kv *kv, const lh_kv_rows *rows)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t from = kv->prompt.tokens - kv->work.rows, width = h->q_count * kv->shape.head_dim;
    int64_t skip = from > rows->first ? from - rows->first : 0, count = rows->tokens - skip;
    if (count <= 0) goto done;
    int64_t row = rows->first + skip - from;
    assert(row + count <= kv->work.rows);
    float *dst = (float *)kv->work.at[LH_WORK_Q] + (h->split ? kv->work.rows * h->q_first * kv->shape.head_dim : 0);
    int dense = rows->q_ld == width;
    for (int64_t r = 0; r < (dense ? 1 : count); r++)
        LH_TRY(lh_stream_copy(kv->place.stream, dst + (row + r) * width, rows->q + (skip + r) * rows->q_ld,
                              (dense ? count : 1) * width * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
    LH_TRY(lh_kv_keep_lse(kv, rows->lse + skip * h->q_count, row, count));
done:
    return st;
}

int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer)
{
    const lh_kv_layer *l = &kv->layers[layer];
    if (kv->clock.seen) return l->ring.q ? 0 : INT64_MAX;
    return kv->prompt.tokens - (l->plan.scored || l->ring.q ? lh_policy_rows(&kv->fixed, kv->prompt.tokens) : 0);
}

lh_status lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    lh_status st = LH_OK;
    if (kv->layers[layer].ring.q) LH_TRY(lh_kv_ring_record(kv, layer, rows));
    if (!kv->clock.seen && kv->layers[layer].plan.scored) LH_TRY(keep_rows(kv, rows));
done:
    return st;
}

/* ---- the end of a layer ---- */

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

/* Competing entries of every head, while all heads hold the whole prompt. */
static const int64_t *even_room(lh_kv *kv, const lh_layer_plan *plan)
{
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++)
        kv->traffic.room[g] = kv->prompt.tokens - plan->visible_from - plan->protect.sinks - plan->protect.recents;
    return kv->traffic.room;
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
                     .protect = plan->protect,
                     .cols = kv->prompt.tokens,
                     .ranked = plan->ranked,
                     .scored = plan->scored,
                     .room = even_room(kv, plan)};
    local = check_appended(kv, layer, pool);
    if (plan->evicts) {
        LH_TRY(lh_kv_choose(kv, &e, &local, counts));
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
