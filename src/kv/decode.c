/* Blocks and steps after a prompt: memory for new entries, and evictions when they are due. */
#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view)
{
    lh_arena *arena = &kv->layers[layer].arena;
    int64_t *caps = kv->arrays.kept, small = 0;
    for (int64_t h = 0; h < arena->view.heads; h++) small |= arena->len[h] + tokens > arena->cap[h];
    /* once in a while, not at every step: an eighth more */
    for (int64_t h = 0; h < arena->view.heads; h++) {
        int64_t need = arena->len[h] + tokens + (tokens == 1 ? arena->len[h] / 8 + 64 : 0);
        caps[h] = lh_max_i64(need, arena->cap[h]);
    }
    if (small) LH_TRY(lh_arena_resize(arena, &kv->exec, caps));
    *view = &arena->view;
    return LH_OK;
}

/* ---- reserved memory ---- */

/* Tokens that every head of this rank has slots for. */
static int64_t least_room(const lh_kv *kv)
{
    int64_t room = INT32_MAX;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
            room = lh_min_i64(room, kv->layers[l].arena.cap[h] - kv->layers[l].arena.len[h]);
    return room;
}

/* 1 where after the next eviction of a step no head of this rank holds more than now. Heads that compete among each
 * other, and those that slide out of sight, come to hold more. */
static int is_full(const lh_kv *kv)
{
    const lh_policy_numbers *p = &kv->numbers;
    int full = p->evicts && p->every > 0 && p->budgets.heads == LH_HEADS_UNIFORM &&
               p->budgets.layers != LH_LAYERS_ADAPTIVE && kv->timeline.budgets_made;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        full &= !lh_kv_slides(&kv->shape, l);
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
            full &= kv->layers[l].arena.len[h] >= kv->arrays.budgets[l];
    }
    return full;
}

/* Reallocations of this rank's arenas so far. */
static int64_t moves(const lh_kv *kv)
{
    int64_t moves = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++) moves += kv->layers[l].arena.epoch;
    return moves;
}

static lh_status reserve(lh_kv *kv, int64_t tokens)
{
    lh_ragged *view;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_kv_room(kv, l, tokens, &view));
    LH_TRY(lh_kv_reserve_widened(kv));
    return lh_kv_reserve_slots(kv, tokens);
}

lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens)
{
    int64_t least[3] = {-1, 0, 0}, before = moves(kv); /* room, whether all are full, whether nothing has moved */
    if (kv->forks) LH_FAIL(LH_EINTERNAL, "%lld forks share the entries of a cache that goes on", (long long)kv->forks);
    lh_status st = lh_kv_wait_lens(kv);
    if (tokens == 1 && kv->reserved.tokens > 0) {
        lh_exec_latch(&kv->exec, st); /* the step agrees with the other ranks */
        return LH_OK;
    }
    if (st == LH_OK) st = reserve(kv, tokens);
    if (st == LH_OK) {
        least[0] = least_room(kv);
        least[1] = is_full(kv);
        least[2] = moves(kv) == before;
    }
    LH_TRY(lh_comm_allreduce(kv->exec.comm, least, 3, LH_I64, LH_MIN));
    kv->epoch += !least[2];
    if (least[0] < 0) LH_TRY(lh_comm_agree(kv->exec.comm, st)); /* some rank has failed */
    kv->reserved = (lh_reserved){.tokens = least[0], .after_eviction = least[1] ? least[0] : 0};
    return LH_OK;
}

/* ---- evictions ---- */

typedef enum occasion { UNSEEN_GO, POLICY_IS_DUE } occasion;

static lh_evict_job job_of(lh_kv *kv, int64_t layer)
{
    int64_t budget = kv->arrays.budgets[layer];
    lh_evict_job job = lh_kv_job(kv, layer, &kv->layers[layer].arena, kv->timeline.seen);
    job.number = kv->timeline.evictions + lh_kv_block_count(&kv->numbers, budget, kv->prompt.tokens);
    job.protect = lh_policy_protect(
        &kv->numbers, &(lh_protect_request){.budget = budget, .seen = job.seen, .visible_from = job.visible_from});
    return job;
}

/* Collective where lh_kv_evict_layers is. */
static void evict(lh_kv *kv, occasion when)
{
    lh_evict_job jobs[LH_EVICT_AT_ONCE];
    if (when == POLICY_IS_DUE)
        lh_kv_make_work_everywhere(kv, 0);
    else
        lh_kv_make_work(kv, 0);
    for (int64_t first = 0; first < kv->shape.layers; first += LH_EVICT_AT_ONCE) {
        int64_t n = lh_min_i64(kv->shape.layers - first, LH_EVICT_AT_ONCE);
        for (int64_t i = 0; i < n; i++) jobs[i] = job_of(kv, first + i);
        lh_kv_drop_unseen(kv, jobs, n);
        if (when == POLICY_IS_DUE) lh_kv_evict_layers(kv, jobs, n);
    }
    LH_LATCH(&kv->exec, lh_kv_start_lens_copy(kv));
}

/* Makes the budgets of layers once the sequence is longer than a budget. Returns 1 if they differ by layer: then some
 * layers have more slots than they need. */
static int divide_budgets(lh_kv *kv)
{
    if (kv->timeline.budgets_made) return 0;
    lh_kv_make_budgets(kv, kv->timeline.seen);
    return kv->timeline.budgets_made && kv->numbers.budgets.layers != LH_LAYERS_UNIFORM;
}

/* A question made the heads longer than decoding will, or layers have got smaller budgets: frees the slots that were
 * evicted after that. */
static lh_status trim(lh_kv *kv)
{
    int64_t *caps = kv->arrays.kept;
    kv->reserved = (lh_reserved){0};
    kv->epoch++;
    LH_TRY(lh_kv_wait_lens(kv));
    lh_evictor_free(kv->evictor);
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_kv_layer *layer = &kv->layers[l];
        lh_arena *arena = &layer->arena;
        const int64_t later = kv->timeline.budgets_made ? 0 : layer->plan.later;
        lh_layer_request request = {.layer = l, .budget = kv->arrays.budgets[l], .later = later, .prompt = kv->prompt};
        int shrinks = 0;
        lh_counted_rows_free(&layer->latest, lh_kv_device(kv));
        for (int64_t h = 0; h < arena->view.heads; h++) {
            int64_t wanted = arena->len[h] + lh_kv_slack(&kv->shape, &kv->numbers, &request, arena->len[h]);
            caps[h] = lh_min_i64(wanted, arena->cap[h]);
            shrinks |= caps[h] < arena->cap[h];
        }
        if (shrinks) LH_TRY(lh_arena_resize(arena, &kv->exec, caps));
    }
    return LH_OK;
}

/* All layers hold `tokens` more. Returns 1 where some of them slide. */
static int take_in(lh_kv *kv, int64_t tokens)
{
    int slides = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) kv->layers[l].arena.len[h] += tokens;
        slides |= lh_kv_slides(&kv->shape, l);
        if (kv->stats.norms >= 0) kv->layers[l].entries_without_norm += tokens;
    }
    kv->timeline.seen += tokens;
    kv->reserved.tokens = lh_max_i64(0, kv->reserved.tokens - tokens); /* nothing else takes any */
    return slides;
}

int lh_kv_is_due(const lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    const int64_t every = kv->numbers.evicts ? kv->numbers.every : 0, steps = kv->timeline.steps;
    return every && (what == LH_KV_BLOCK || (steps + tokens) / every > steps / every);
}

lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    double start = lh_clock_s();
    const int due = lh_kv_is_due(kv, what, tokens);
    int slides = take_in(kv, tokens);
    if (what == LH_KV_STEP) kv->timeline.steps += tokens;
    if (!due && !slides) {
        kv->evict_s += lh_clock_s() - start;
        return LH_OK;
    }
    const int divides = due && divide_budgets(kv);
    kv->timeline.evictions += due;
    int64_t ld = lh_evictor_ld(kv->evictor);
    evict(kv, due ? POLICY_IS_DUE : UNSEEN_GO);
    if (what == LH_KV_BLOCK || divides) LH_LATCH(&kv->exec, trim(kv));
    int moved = lh_evictor_ld(kv->evictor) != ld;
    lh_status st = lh_comm_agree_any(kv->exec.comm, lh_exec_take(&kv->exec), &moved);
    kv->epoch += st != LH_OK || moved;
    if (st == LH_OK && due && kv->reserved.after_eviction) kv->reserved.tokens = kv->reserved.after_eviction;
    kv->evict_s += lh_clock_s() - start;
    return st;
}
