/* Evict-and-encode (EasyKV's stride, arXiv 2402.06262): the first C tokens of a prompt are taken in whole; then, before
 * every block of n tokens, each layer goes down to C - n entries a head, so that it never holds more than C. */
#include "kv/kv_impl.h"

/* Tokens of a layer before its first eviction: its budget. */
static int64_t first_block(const lh_kv *kv, int64_t layer)
{
    return kv->budgets[layer];
}

int64_t lh_kv_block_count(const lh_policy_numbers *fixed, int64_t budget, int64_t tokens)
{
    if (!fixed->evicts || !fixed->block || tokens <= budget) return 0;
    return (tokens - budget + fixed->block - 1) / fixed->block;
}

/* Sliding layers whose window is in the budget lose what cannot be seen, and nothing else. */
static int only_slides(const lh_kv *kv, int64_t layer)
{
    return lh_kv_slides(&kv->shape, layer) && kv->fixed.budget >= kv->shape.window;
}

/* Collective. */
static lh_status evict(lh_kv *kv, int64_t layer, int64_t at)
{
    lh_status local = kv->counting;
    lh_pool *pool = &kv->layers[layer].pool;
    int64_t first = first_block(kv, layer), block = kv->fixed.block;
    double start = lh_kv_now();
    lh_eviction e = {.layer = layer,
                     .pool = pool,
                     .seen = at,
                     .visible_from = lh_kv_visible_from(&kv->shape, layer, at),
                     .number = (at - first) / block};
    e.protect = lh_policy_protect(
        &kv->fixed, &(lh_protect_request){
                        .budget = kv->budgets[layer], .seen = at, .visible_from = e.visible_from, .block = block});
    if (kv->layout.norms >= 0) kv->layers[layer].fresh += at == first ? first : block;
    if (local == LH_OK) local = lh_pool_pull_len(pool, kv->place.stream);
    LH_TRY(lh_kv_make_work_everywhere(kv, 0, &local));
    if (local == LH_OK) local = lh_kv_drop_unseen(kv, &e);
    if (local == LH_OK) local = lh_pool_pull_len(pool, kv->place.stream);
    if (!only_slides(kv, layer)) LH_TRY(lh_kv_evict_layer(kv, &e, &local));
    if (local == LH_OK) local = lh_pool_pull_len(pool, kv->place.stream);
    kv->evict_s += lh_kv_now() - start;
    LH_TRY(lh_comm_agree(kv->place.comm, local));
    return LH_OK;
}

lh_status lh_kv_prefill_next(lh_kv *kv, int64_t layer, int64_t at, int64_t *tokens, lh_ragged **view)
{
    lh_status st = LH_OK;
    int64_t first = first_block(kv, layer), block = kv->fixed.block;
    if (!kv->fixed.evicts || !block) return LH_OK;
    int64_t left = at < first ? first - at : block - (at - first) % block;
    if (*tokens > left) *tokens = left;
    if (at >= first && (at - first) % block == 0) {
        LH_TRY(evict(kv, layer, at));
        st = lh_kv_room(kv, layer, block, view);
        LH_TRY(lh_comm_agree(kv->place.comm, st));
    }
    return st;
}

lh_status lh_kv_end_blocks(lh_kv *kv, int64_t layer)
{
    int64_t first = first_block(kv, layer), tokens = kv->prompt.tokens;
    lh_eviction e = {.layer = layer,
                     .pool = &kv->layers[layer].pool,
                     .seen = tokens,
                     .visible_from = lh_kv_visible_from(&kv->shape, layer, tokens)};
    if (kv->layout.norms >= 0)
        kv->layers[layer].fresh += tokens > first ? (tokens - first - 1) % kv->fixed.block + 1 : tokens;
    LH_TRY(lh_pool_pull_len(e.pool, kv->place.stream));
    if (e.visible_from == 0) return LH_OK;
    LH_TRY(lh_kv_make_work(kv, 0));
    LH_TRY(lh_kv_drop_unseen(kv, &e)); /* the last block's rows saw them */
    LH_TRY(lh_pool_pull_len(e.pool, kv->place.stream));
    return LH_OK;
}
