/* One eviction, of a layer or of several together: workspace, scores, and compaction of the kept entries, in place
 * while decoding or out of the arena of the prefill. */
#include <string.h>

#include "kv/kv_impl.h"

/* ---- work space ---- */

void lh_kv_make_work(lh_kv *kv, int64_t cols)
{
    int64_t ld = cols, layers = kv->timeline.phase == LH_KV_DECODE ? lh_min_i64(kv->shape.layers, LH_EVICT_AT_ONCE) : 1;
    for (int64_t l = 0; l < kv->shape.layers; l++) ld = lh_max_i64(ld, lh_arena_longest_cap(&kv->layers[l].arena));
    if (ld <= lh_evictor_ld(kv->evictor)) return;
    LH_LATCH(&kv->exec, lh_evictor_alloc_steps(kv->evictor, ld, layers));
}

/* 1 where an eviction exchanges columns of scores, statistics or sums of rows; and where it exchanges anything. */
static int exchanges_columns(const lh_kv *kv)
{
    return (lh_observes_again(&kv->numbers) && kv->shape.heads.split) || kv->numbers.select.joint;
}

static int exchanges(const lh_kv *kv)
{
    return exchanges_columns(kv) || kv->numbers.budgets.heads != LH_HEADS_UNIFORM;
}

void lh_kv_make_work_everywhere(lh_kv *kv, int64_t cols)
{
    lh_kv_make_work(kv, cols);
    if (exchanges(kv)) lh_exec_latch(&kv->exec, lh_exec_agree(&kv->exec));
}

/* ---- one layer ---- */

/* Where slots are positions they stay in order; and entries without norms stay the last, where a further eviction asks
 * for them. Elsewhere filling holes moves fewer. */
static int keeps_order(const lh_kv *kv, int64_t layer)
{
    int normless = kv->stats.norms >= 0 && kv->layers[layer].entries_without_norm > 0;
    return lh_kv_uses_slots(&kv->numbers) || (normless && lh_evicts_again(&kv->numbers));
}

/* By the masks of the layers. */
static void compact(lh_kv *kv, const lh_evict_job *jobs, int64_t n)
{
    lh_keep keep = lh_evict_keep(kv->evictor);
    lh_ragged views[LH_EVICT_AT_ONCE];
    int ordered = 0;
    for (int64_t i = 0; i < n; i++) {
        lh_kv_layer *layer = &kv->layers[jobs[i].layer.index];
        views[i] = layer->arena.view;
        ordered |= keeps_order(kv, jobs[i].layer.index);
    }
    LH_RUN(&kv->exec, compact, .dst = views, .src = views, .state = keep.state, .batch = n, .ld = keep.ld,
           .kind = ordered ? LH_COMPACT_IN_ORDER : LH_COMPACT_FILL);
}

void lh_kv_drop_unseen(lh_kv *kv, const lh_evict_job *jobs, int64_t n)
{
    lh_evict_job sliding[LH_EVICT_AT_ONCE];
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (jobs[i].visible_from == 0) continue;
        sliding[count] = jobs[i];
        sliding[count++].protect = (lh_protection){.budget = INT64_MAX};
    }
    if (count == 0) return;
    lh_evict_classify(kv->evictor, sliding, count);
    compact(kv, sliding, count);
    lh_evict_end(kv->evictor);
}

/* Lengths of heads: this rank's, or all ranks'. */
typedef struct head_lens {
    const int64_t *at;
    int64_t heads;
    int gathered; /* 1: of all ranks */
} head_lens;

/* True if ranks exchange the lengths of their heads: not where all have the same length, nor for adaptive heads, which
 * are counted on the device. */
static int gathers_lens(const lh_kv *kv, int64_t layer)
{
    const lh_heads_budget budgets = kv->numbers.budgets.heads;
    if (budgets == LH_HEADS_PROFILE) return 1;
    return exchanges_columns(kv) && (budgets == LH_HEADS_ADAPTIVE || lh_kv_slides(&kv->shape, layer));
}

/* Collective where they have to. */
static head_lens lens_of(lh_kv *kv, int64_t layer)
{
    const lh_heads *h = &kv->shape.heads;
    lh_arena *arena = &kv->layers[layer].arena;
    if (!gathers_lens(kv, layer)) return (head_lens){arena->len, h->kv_count, 0};
    if (kv->numbers.budgets.heads == LH_HEADS_PROFILE) LH_LATCH(&kv->exec, lh_arena_pull_len(arena, &kv->exec));
    lh_exec_latch(&kv->exec, lh_gather_lens(&kv->arrays.gather, h, kv->exec.comm, arena->len, kv->arrays.lens));
    return (head_lens){kv->arrays.lens, h->kv_heads, 1};
}

/* What an eviction by the policy finds; room: [heads], filled. 1: there may be something to evict: heads are as long as
 * the host knows, and one that holds no more than the budget loses nothing. */
static int measure(const lh_kv *kv, lh_evict_job *job, const head_lens *lens, int64_t *room)
{
    int64_t held = 0, budget = job->protect.budget;
    job->cols = 0;
    for (int64_t g = 0; g < lens->heads; g++) {
        const int64_t len = lens->at[g];
        room[g] = lh_max_i64(0, len - job->protect.sinks - job->protect.recents);
        held += len;
        job->cols = lh_max_i64(job->cols, len);
    }
    job->room = room;
    job->ranked = lh_protection_ranks(&job->protect);
    job->scored = job->ranked && !lh_methods_have(&kv->numbers.methods, LH_BY_POSITION);
    switch (kv->numbers.budgets.heads) {
    /* only the device knows how long heads are; where nothing has to go, nothing goes */
    case LH_HEADS_ADAPTIVE: return job->seen - job->visible_from > budget;
    case LH_HEADS_PROFILE: return held > lens->heads * budget;
    default: return job->cols > budget;
    }
}

/* The ring's rows in the order of their positions, where the policy observes a window again. */
static int unroll_ring(lh_kv *kv, const lh_evict_job *job, lh_query_rows *out)
{
    const lh_query_ring *ring = &kv->layers[job->layer.index].ring;
    lh_row_room room = lh_evict_row_room(kv->evictor, job->seen);
    int32_t *positions = NULL;
    if (!ring->q || !job->ranked) return 0;
    const int64_t rows = lh_ring_rows(ring, job->seen);
    lh_exec_latch(&kv->exec, lh_calloc(&positions, rows, sizeof *positions));
    for (int64_t r = 0; r < rows && positions; r++) positions[r] = (int32_t)lh_ring_position(ring, job->seen, r);
    if (positions) {
        lh_ring_unroll(ring, &kv->exec, positions, rows, room.q);
        lh_evict_put_positions(kv->evictor, positions, rows);
    }
    lh_free(positions);
    *out = (lh_query_rows){.q = room.q, /* of the entries that are held now: no log-sum-exps are known */
                           .positions = room.positions,
                           .first = job->seen - rows,
                           .tokens = rows,
                           .first_rows = kv->numbers.first_rows,
                           .q_ld = ring->shape.width};
    return 1;
}

/* Collective where groups are split. i: index among the layers that are evicted together. */
static void score(lh_kv *kv, const lh_evict_job *due, int64_t i)
{
    lh_evict_job job = *due;
    lh_kv_layer *layer = &kv->layers[job.layer.index];
    lh_query_rows rows;
    int is_latest = layer->latest.sums && layer->latest.position == job.seen - 1;
    if (is_latest)
        job.counted = &layer->latest;
    else if (unroll_ring(kv, &job, &rows))
        job.rows = &rows;
    if (lh_scores_read_entries(&kv->numbers, is_latest)) job.entries = lh_kv_widen(kv, &layer->arena, 0);
    lh_evict_score(kv->evictor, &job, i);
}

/* Before the entries of a layer go; lens: [kv_count], filled. */
static lh_reference_queries refer(lh_kv *kv, const lh_evict_job *due, int64_t *lens)
{
    lh_evict_job job = *due;
    lh_arena *arena = &kv->layers[job.layer.index].arena;
    LH_LATCH(&kv->exec, lh_arena_pull_len(arena, &kv->exec));
    memcpy(lens, arena->len, (size_t)arena->view.heads * sizeof *lens);
    job.entries = lh_kv_widen(kv, arena, 0);
    return lh_evict_reference_queries(kv->evictor, &job, lens);
}

/* After it. */
static void fit(lh_kv *kv, const lh_reference_queries *reference, const int64_t *before)
{
    lh_kv_layer *layer = &kv->layers[reference->layer.index];
    lh_arena *arena = &layer->arena;
    LH_LATCH(&kv->exec, lh_arena_pull_len(arena, &kv->exec));
    lh_evict_fit(
        kv->evictor, reference,
        &(lh_evict_kept){
            .entries = lh_kv_widen(kv, arena, 0), .offset = arena->offset, .len = arena->len, .before = before});
    lh_kv_narrow_values(kv, arena);
    if (kv->stats.norms >= 0) layer->entries_without_norm = lh_arena_longest(arena);
}

/* Collective, as lh_kv_evict_layers. Either all jobs are ranked or no job; one, if its entries are fitted. */
static void select_and_compact(lh_kv *kv, const lh_evict_job *jobs, int64_t n)
{
    int64_t *before = kv->arrays.kept;
    lh_reference_queries reference;
    const int fits = lh_evict_fits(kv->evictor, jobs);
    lh_evict_classify(kv->evictor, jobs, n);
    for (int64_t i = 0; i < n && jobs->ranked; i++) score(kv, &jobs[i], i);
    if (jobs->ranked) lh_evict_choose(kv->evictor, jobs, n, NULL);
    if (fits) reference = refer(kv, jobs, before);
    compact(kv, jobs, n);
    if (fits) fit(kv, &reference, before);
    lh_evict_end(kv->evictor);
}

/* Collective where ranks have to say how long their heads are. 1: there may be something to evict. room: [kv_heads of
 * the model]. */
static int prepare(lh_kv *kv, lh_evict_job *job, int64_t *room)
{
    const head_lens lens = lens_of(kv, job->layer.index);
    if (!measure(kv, job, &lens, room)) return 0;
    if (lens.gathered) lh_kv_make_work_everywhere(kv, job->cols);
    return 1;
}

void lh_kv_evict_layers(lh_kv *kv, lh_evict_job *jobs, int64_t n)
{
    lh_evict_job due[LH_EVICT_AT_ONCE];
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!prepare(kv, &jobs[i], kv->arrays.room + i * kv->shape.heads.kv_heads)) continue;
        if (count && (due->ranked != jobs[i].ranked || lh_evict_fits(kv->evictor, due))) {
            select_and_compact(kv, due, count);
            count = 0;
        }
        due[count++] = jobs[i];
    }
    if (count) select_and_compact(kv, due, count);
}

/* ---- out of the arena of the prefill ---- */

/* counts[h] has the entries that were chosen and the slack. */
static lh_status move_kept(lh_kv *kv, const lh_evict_job *job, const int64_t *caps)
{
    int64_t l = job->layer.index, slack = kv->layers[l].plan.slack;
    lh_arena *arena = &kv->layers[l].arena;
    lh_keep keep = lh_evict_keep(kv->evictor);
    LH_TRY(lh_arena_alloc(arena, &kv->exec, caps));
    for (int64_t h = 0; h < arena->view.heads; h++) arena->len[h] = caps[h] - slack;
    LH_TRY(kv->exec.ops->compact(kv->exec.stream, &(lh_compact_args){.dst = &arena->view,
                                                                     .src = job->entries,
                                                                     .state = keep.state,
                                                                     .batch = 1,
                                                                     .ld = keep.ld,
                                                                     .kind = LH_COMPACT_IN_ORDER}));
    lh_kv_expect_lens(kv, arena, l);
    return LH_OK;
}

void lh_kv_move_kept(lh_kv *kv, const lh_evict_job *job, int64_t *counts)
{
    const lh_layer_plan *plan = &kv->layers[job->layer.index].plan;
    const int64_t more = lh_kv_protected(plan) + plan->slack;
    for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) counts[h] += more;
    LH_LATCH(&kv->exec, move_kept(kv, job, counts));
}
