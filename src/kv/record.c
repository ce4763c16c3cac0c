/* Query rows as they pass a layer: kept in its ring, and kept, counted or summed up by the policy's source of scores.
 */
#include "kv/kv_impl.h"

int lh_kv_uses_rows(const lh_kv *kv, int64_t layer)
{
    lh_evict_phase phase = kv->timeline.phase == LH_KV_PREFILL ? LH_EVICT_PREFILL : LH_EVICT_DECODE;
    if (phase == LH_EVICT_PREFILL && kv->shared.same_stats) return 0; /* another cache counts them */
    return lh_evict_uses_rows(&kv->numbers, phase, kv->layers[layer].plan.scored);
}

/* 1 where the last rows are kept to be observed again. */
static int rings(const lh_kv *kv, int64_t layer)
{
    return kv->layers[layer].ring.q && (kv->numbers.every || kv->timeline.phase == LH_KV_PREFILL);
}

/* 1 where the last row is counted as it passes. */
static int counts_latest(const lh_kv *kv, int64_t layer)
{
    return rings(kv, layer) && !lh_kv_slides(&kv->shape, layer) && lh_latest_row_counts(&kv->numbers, &kv->shape.heads);
}

int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer)
{
    int wanted = rings(kv, layer) || lh_kv_uses_rows(kv, layer);
    if (kv->timeline.phase == LH_KV_DECODE) return wanted ? 0 : INT64_MAX;
    int64_t first = wanted ? lh_evict_first_row(kv->evictor) : kv->prompt.tokens;
    for (int64_t i = 0; i < kv->shared.follower_count; i++)
        first = lh_min_i64(first, lh_kv_wants_rows(kv->shared.followers[i], layer));
    return first;
}

lh_row_logits lh_kv_row_logits(lh_kv *kv, int64_t layer)
{
    const lh_row_logits none = {0};
    int counted = (kv->numbers.score.running && lh_kv_uses_rows(kv, layer)) || counts_latest(kv, layer);
    if (kv->timeline.phase == LH_KV_PREFILL || kv->shape.heads.split || !counted) return none;
    lh_kv_make_work(kv, 0);
    return lh_exec_ok(&kv->exec) ? lh_evict_row_logits(kv->evictor) : none;
}

static void record_ring(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    lh_query_ring *ring = &kv->layers[layer].ring;
    if (kv->snapshot.phase != LH_KV_EMPTY) LH_LATCH(&kv->exec, lh_ring_save(ring, &kv->exec));
    lh_ring_record(ring, &kv->exec, rows->q, rows->positions, rows->tokens, rows->q_ld);
}

static void count_latest(lh_kv *kv, int64_t layer, const lh_query_rows *row)
{
    lh_kv_layer *of = &kv->layers[layer];
    lh_evict_job job = lh_kv_job(kv, layer, &of->arena, row->first + 1);
    job.cols = lh_arena_longest_cap(&of->arena);
    kv->epoch += lh_latest_row_reserve(&of->latest, kv->evictor);
    lh_latest_row_count(&of->latest, kv->evictor, &job, row);
}

/* Collective where statistics go on and groups are split. */
static void use_rows(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    const lh_exec *x = &kv->exec;
    int in_prefill = kv->timeline.phase == LH_KV_PREFILL;
    lh_arena *arena = in_prefill ? lh_kv_prefill_arena(kv, layer) : &kv->layers[layer].arena;
    /* rows look at keys that are rotated by slots */
    const lh_arena *seen = !in_prefill && lh_kv_uses_slots(&kv->numbers) ? &kv->slots.arena : arena;
    lh_evict_job job = lh_kv_job(kv, layer, seen, rows->first + rows->tokens);
    job.cols = in_prefill ? kv->prompt.tokens : lh_arena_longest_cap(arena);
    if (in_prefill && kv->numbers.block) {
        LH_LATCH(x, lh_arena_pull_len(arena, x));
        job.cols = lh_arena_longest(arena);
    }
    if (!in_prefill) LH_LATCH(x, lh_snapshot_save_stats(&kv->layers[layer].snapshot, arena, x));
    lh_evict_rows(kv->evictor, &job, rows);
}

void lh_kv_record(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    double start = lh_kv_now();
    if (rings(kv, layer)) record_ring(kv, layer, rows);
    kv->layers[layer].latest.position = -1;
    if (rows->logits.at && counts_latest(kv, layer)) count_latest(kv, layer, rows);
    if (lh_kv_uses_rows(kv, layer)) use_rows(kv, layer, rows);
    kv->evict_s += lh_kv_now() - start;
    for (int64_t i = 0; i < kv->shared.follower_count && kv->timeline.phase == LH_KV_PREFILL; i++)
        lh_kv_record(kv->shared.followers[i], layer, rows);
}

/* ---- CUDA graphs ---- */

/* Keys are rotated by slots that the host knows, and so is the gain of a row. */
int lh_kv_can_capture(const lh_kv *kv)
{
    const lh_policy_score *s = &kv->numbers.score;
    return !lh_kv_uses_slots(&kv->numbers) && !(s->running && (s->gain || s->non_causal));
}

int64_t lh_kv_graph_epoch(const lh_kv *kv)
{
    int64_t epoch = kv->epoch;
    for (int64_t l = 0; l < kv->shape.layers; l++) epoch += kv->layers[l].arena.epoch;
    return epoch;
}

void lh_kv_graph_replayed(lh_kv *kv)
{
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (counts_latest(kv, l)) kv->layers[l].latest.position = kv->timeline.seen;
}
