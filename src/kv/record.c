/* Query rows as they pass a layer: kept in its ring, kept, counted or summed up by the policy's source of scores, and
 * handed to a listener. */
#include "kv/kv_impl.h"

int lh_kv_uses_rows(const lh_kv *kv, int64_t layer)
{
    lh_evict_phase phase = kv->timeline.phase == LH_KV_PREFILL ? LH_EVICT_PREFILL : LH_EVICT_DECODE;
    if (phase == LH_EVICT_PREFILL && kv->shared.same_stats) return 0; /* another cache counts them */
    return lh_evict_uses_rows(&kv->numbers, phase, kv->layers[layer].plan.scored || kv->shared.counts_for_others);
}

/* 1 where the last rows are kept to be observed again. */
static int rings(const lh_kv *kv, int64_t layer)
{
    return kv->layers[layer].ring.q && (kv->numbers.every || kv->timeline.phase == LH_KV_PREFILL);
}

/* 1 where the last row is counted as it passes. */
static int counts_latest(const lh_kv *kv, int64_t layer)
{
    return rings(kv, layer) && !lh_kv_slides(&kv->shape, layer) &&
           lh_counted_rows_latest(&kv->numbers, &kv->shape.heads);
}

/* The first row of the prompt that the listener wants. */
static int64_t first_wanted_row(const lh_kv *kv, int64_t layer)
{
    const lh_kv_listener *l = &kv->listener;
    return l->rows ? lh_min_i64(l->first_row(l->self, layer), kv->prompt.tokens) : kv->prompt.tokens;
}

int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer)
{
    int wanted = rings(kv, layer) || lh_kv_uses_rows(kv, layer);
    int64_t first = first_wanted_row(kv, layer);
    if (kv->timeline.phase == LH_KV_DECODE) return wanted || first < kv->prompt.tokens ? 0 : INT64_MAX;
    if (wanted) first = lh_min_i64(first, lh_evict_first_row(kv->evictor));
    for (int64_t i = 0; i < kv->shared.follower_count; i++)
        first = lh_min_i64(first, lh_kv_wants_rows(kv->shared.followers[i], layer));
    return first;
}

int lh_kv_wants_hidden(const lh_kv *kv, int64_t layer)
{
    int wanted = (lh_kv_uses_rows(kv, layer) && lh_score_reads_hidden(&kv->numbers.score)) ||
                 (lh_kv_uses_probes(kv, layer) && lh_uses_method(&kv->numbers.methods, LH_METHOD_output_norms));
    for (int64_t i = 0; i < kv->shared.follower_count; i++)
        wanted |= lh_kv_wants_hidden(kv->shared.followers[i], layer);
    return wanted;
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
    lh_ring_record(&kv->layers[layer].ring, &kv->exec, rows->q, rows->positions, rows->tokens, rows->q_ld);
}

static void count_latest(lh_kv *kv, int64_t layer, const lh_query_rows *row)
{
    lh_kv_layer *of = &kv->layers[layer];
    lh_evict_job job = lh_kv_job(kv, layer, &of->arena, row->first + 1);
    job.cols = lh_arena_longest_cap(&of->arena);
    lh_counted_rows_reserve(&of->latest, kv->evictor);
    lh_counted_rows_take(&of->latest, kv->evictor, &job, row);
}

/* A layer with the rows that pass it, up to position `seen`. unread: true if nothing reads its keys and values, e.g.
 * because the logits of the rows are known. */
static lh_evict_job passing_job(lh_kv *kv, int64_t layer, int64_t seen, int unread)
{
    const lh_exec *x = &kv->exec;
    const int in_prefill = kv->timeline.phase == LH_KV_PREFILL;
    lh_arena *arena = in_prefill ? lh_kv_prefill_arena(kv, layer) : &kv->layers[layer].arena;
    /* rows look at keys that are rotated by slots */
    const lh_arena *looked_at = !in_prefill && lh_kv_uses_slots(&kv->numbers) ? &kv->slots.arena : arena;
    lh_evict_job job = lh_kv_job(kv, layer, looked_at, seen);
    if (!unread) job.entries = lh_kv_widen(kv, looked_at, seen - kv->timeline.seen);
    job.cols = in_prefill ? kv->prompt.tokens : lh_arena_longest_cap(arena);
    if (in_prefill && kv->numbers.block) {
        LH_LATCH(x, lh_arena_pull_len(arena, x));
        job.cols = lh_arena_longest(arena);
    }
    return job;
}

/* Collective where running statistics meet split groups. */
static void use_rows(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    const lh_evict_job job = passing_job(kv, layer, rows->first + rows->tokens, rows->logits.at != NULL);
    lh_evict_rows(kv->evictor, &job, rows);
}

/* Collective where the listener is. */
static void call_listener(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    const lh_query_rows *q = &rows->queries;
    if (!kv->listener.rows || first_wanted_row(kv, layer) >= lh_min_i64(q->first + q->tokens, kv->prompt.tokens))
        return;
    /* a listener reads entries of a prompt alone, which are not q8 */
    lh_evict_job job = passing_job(kv, layer, q->first + q->tokens, 1);
    lh_exec_latch(&kv->exec, kv->listener.rows(kv->listener.self, &job, rows));
}

void lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    const lh_query_rows *queries = &rows->queries;
    double start = lh_clock_s();
    if (kv->timeline.phase == LH_KV_PREFILL && queries->first >= kv->prompt.tokens) {
        lh_kv_record_probes(kv, layer, queries);
        return;
    }
    if (rings(kv, layer)) record_ring(kv, layer, queries);
    kv->layers[layer].latest.position = -1;
    if (queries->logits.at && counts_latest(kv, layer)) count_latest(kv, layer, queries);
    if (lh_kv_uses_rows(kv, layer)) use_rows(kv, layer, queries);
    kv->evict_s += lh_clock_s() - start;
    call_listener(kv, layer, rows);
    for (int64_t i = 0; i < kv->shared.follower_count && kv->timeline.phase == LH_KV_PREFILL; i++)
        lh_kv_record(kv->shared.followers[i], layer, rows);
}

void lh_kv_put_columns(lh_kv *kv, int64_t layer, const lh_kv_columns *c)
{
    const lh_ragged *view = &lh_kv_prefill_arena(kv, layer)->view;
    const int64_t tokens = kv->prompt.tokens;
    const struct {
        int64_t stat;
        const float *x;
    } columns[] = {{kv->stats.sums, c->sums}, {kv->stats.squares, c->squares}, {kv->stats.counts, c->counts}};
    if (!view->stats || kv->shared.same_stats) return;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i].stat >= 0 && columns[i].x)
            LH_RUN(&kv->exec, put_stats, .y = lh_stat_of(view, columns[i].stat), .x = columns[i].x, .kv = view,
                   .last = tokens, .ld = tokens);
}

/* ---- CUDA graphs ---- */

/* Keys are rotated by slots that the host knows, and so is the gain of a row; a listener takes rows to the host;
 * entries are widened up to lengths that the host knows. */
int lh_kv_can_capture(const lh_kv *kv)
{
    const lh_policy_score *s = &kv->numbers.score;
    return !lh_kv_uses_slots(&kv->numbers) && !(s->running && lh_methods_have(&kv->numbers.methods, LH_ALTERS_ROWS)) &&
           !lh_kv_widens_in_steps(kv) && !kv->listener.rows;
}

int64_t lh_kv_graph_epoch(const lh_kv *kv)
{
    return kv->epoch;
}

void lh_kv_graph_replayed(lh_kv *kv)
{
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (counts_latest(kv, l)) kv->layers[l].latest.position = kv->timeline.seen;
}
