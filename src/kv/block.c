/* Evict-and-encode (EasyKV's stride, arXiv 2402.06262): the first C tokens of a prompt are taken in whole; then, before
 * every block of n tokens, each layer goes down to C - n entries a head, so that it never holds more than C. */
#include "kv/kv_impl.h"

/* Tokens of a layer before its first eviction: its budget. */
static int64_t first_block(const lh_kv *kv, int64_t layer)
{
    return kv->arrays.budgets[layer];
}

int lh_kv_only_slides(const lh_kv *kv, int64_t layer)
{
    return lh_kv_slides(&kv->shape, layer) && kv->numbers.budget >= kv->shape.window;
}

/* Collective. */
static lh_status evict(lh_kv *kv, int64_t layer, int64_t at)
{
    const lh_exec *x = &kv->exec;
    lh_arena *arena = &kv->layers[layer].arena;
    int64_t first = first_block(kv, layer), block = kv->numbers.block;
    double start = lh_clock_s();
    lh_evict_job job = lh_kv_job(kv, layer, arena, at);
    job.number = (at - first) / block;
    job.protect = lh_policy_protect(&kv->numbers, &(lh_protect_request){.budget = kv->arrays.budgets[layer],
                                                                        .seen = at,
                                                                        .visible_from = job.visible_from,
                                                                        .block = block});
    if (kv->stats.norms >= 0) kv->layers[layer].entries_without_norm += at == first ? first : block;
    LH_LATCH(x, lh_arena_pull_len(arena, x));
    lh_kv_make_work_everywhere(kv, 0);
    lh_kv_drop_unseen(kv, &job, 1);
    LH_LATCH(x, lh_arena_pull_len(arena, x));
    if (!lh_kv_only_slides(kv, layer)) lh_kv_evict_layers(kv, &job, 1);
    LH_LATCH(x, lh_arena_pull_len(arena, x));
    kv->evict_s += lh_clock_s() - start;
    return lh_exec_agree(x);
}

lh_status lh_kv_prefill_next(lh_kv *kv, int64_t layer, int64_t at, int64_t *tokens, lh_ragged **view)
{
    int64_t first = first_block(kv, layer), block = kv->numbers.block;
    if (!kv->numbers.evicts || !block) return LH_OK;
    *tokens = lh_min_i64(*tokens, at < first ? first - at : block - (at - first) % block);
    if (at < first || (at - first) % block != 0) return LH_OK;
    LH_TRY(evict(kv, layer, at));
    return lh_comm_agree(kv->exec.comm, lh_kv_room(kv, layer, block, view));
}

void lh_kv_end_blocks(lh_kv *kv, int64_t layer)
{
    const lh_exec *x = &kv->exec;
    int64_t first = first_block(kv, layer), tokens = kv->prompt.tokens;
    lh_arena *arena = &kv->layers[layer].arena;
    lh_evict_job job = lh_kv_job(kv, layer, arena, tokens);
    if (kv->stats.norms >= 0)
        kv->layers[layer].entries_without_norm +=
            tokens > first ? (tokens - first - 1) % kv->numbers.block + 1 : tokens;
    LH_LATCH(x, lh_arena_pull_len(arena, x));
    if (job.visible_from == 0) return;
    lh_kv_make_work(kv, 0);
    lh_kv_drop_unseen(kv, &job, 1); /* the last block's rows saw them */
    LH_LATCH(x, lh_arena_pull_len(arena, x));
}
