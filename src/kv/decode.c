/* Blocks and steps after a prompt: room for what comes, and evictions when they are due. */
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
        caps[h] = lh_max_i64(need, arena->cap[h]); /* a snapshot may want back what was evicted */
    }
    if (small) LH_TRY(lh_arena_resize(arena, &kv->exec, caps));
    *view = &arena->view;
    return LH_OK;
}

/* ---- lengths after evictions ---- */

static lh_status ask_lens(lh_kv *kv)
{
    kv->lens.stale = 1;
    return lh_stream_copy(kv->exec.stream, kv->lens.host, kv->lens.device, lh_kv_blocks_bytes(&kv->shape),
                          LH_COPY_TO_HOST);
}

lh_status lh_kv_fetch_lens(lh_kv *kv)
{
    int64_t heads = kv->shape.heads.kv_count;
    if (!kv->lens.stale) return LH_OK;
    LH_TRY(lh_stream_sync(kv->exec.stream));
    for (int64_t l = 0; l < kv->shape.layers && heads > 0; l++)
        memcpy(kv->layers[l].arena.len, kv->lens.host + (2 * l + 1) * heads, (size_t)heads * sizeof *kv->lens.host);
    kv->lens.stale = 0;
    return LH_OK;
}

/* ---- what is reserved ---- */

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

static lh_status reserve(lh_kv *kv, int64_t tokens)
{
    lh_ragged *view;
    for (int64_t l = 0; l < kv->shape.layers; l++) LH_TRY(lh_kv_room(kv, l, tokens, &view));
    return lh_kv_reserve_slots(kv, tokens);
}

lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens)
{
    int64_t least[2] = {-1, 0}; /* room, and whether all are full */
    lh_status st = lh_kv_fetch_lens(kv);
    if (tokens == 1 && kv->reserved.tokens > 0) return st;
    if (st == LH_OK) st = reserve(kv, tokens);
    if (st == LH_OK) {
        least[0] = least_room(kv);
        least[1] = is_full(kv);
    }
    LH_TRY(lh_comm_allreduce(kv->exec.comm, least, 2, LH_I64, LH_MIN));
    if (least[0] < 0) LH_TRY(lh_comm_agree(kv->exec.comm, st)); /* some rank has failed */
    kv->reserved = (lh_reserved){.tokens = least[0], .after_eviction = least[1] ? least[0] : 0};
    return LH_OK;
}

/* ---- work space ---- */

void lh_kv_make_work(lh_kv *kv, int64_t cols)
{
    lh_evict_shape shape = lh_kv_evict_shape(&kv->shape);
    int64_t ld = cols;
    for (int64_t l = 0; l < kv->shape.layers; l++) ld = lh_max_i64(ld, lh_arena_longest_cap(&kv->layers[l].arena));
    if (ld <= lh_evictor_ld(kv->evictor)) return;
    kv->epoch++;
    lh_space_request need = lh_space_of_decoding(&shape, &kv->numbers, ld);
    LH_LATCH(&kv->exec, lh_evictor_alloc(kv->evictor, &need));
}

/* 1 where an eviction exchanges columns of scores or statistics; and where it exchanges anything. */
static int exchanges_columns(const lh_kv *kv)
{
    return (lh_evict_uses_attention(&kv->numbers) && kv->shape.heads.split) || kv->numbers.select.joint;
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
    int normless = kv->stats.norms >= 0 && kv->layers[layer].normless > 0;
    return lh_kv_uses_slots(&kv->numbers) || (normless && lh_evicts_again(&kv->numbers));
}

static void compact(lh_kv *kv, int64_t layer, lh_arena *arena)
{
    lh_keep keep = lh_evict_keep(kv->evictor);
    LH_LATCH(&kv->exec, lh_snapshot_save(&kv->layers[layer].snapshot, arena, &kv->exec));
    LH_RUN(&kv->exec, compact, .dst = &arena->view, .src = &arena->view, .state = keep.state, .ld = keep.ld,
           .kind = keeps_order(kv, layer) ? LH_COMPACT_IN_ORDER : LH_COMPACT_FILL);
}

void lh_kv_drop_unseen(lh_kv *kv, const lh_evict_job *job, lh_arena *arena)
{
    lh_evict_job all = *job;
    all.protect = (lh_protection){.budget = INT64_MAX};
    if (job->visible_from == 0) return;
    lh_evict_classify(kv->evictor, &all);
    compact(kv, job->layer.index, arena);
}

/* What an eviction by the policy finds, in `heads` heads of lens[g] entries. 1: there may be something to evict: heads
 * are as long as the host knows, and one that holds no more than the budget loses nothing. */
static int measure(lh_kv *kv, lh_evict_job *job, const int64_t *lens, int64_t heads)
{
    int64_t held = 0, budget = job->protect.budget;
    job->cols = 0;
    for (int64_t g = 0; g < heads; g++) {
        kv->arrays.room[g] = lh_max_i64(0, lens[g] - job->protect.sinks - job->protect.recents);
        held += lens[g];
        job->cols = lh_max_i64(job->cols, lens[g]);
    }
    job->room = kv->arrays.room;
    job->ranked = job->protect.base > 0;
    job->scored = job->ranked && kv->numbers.score.source != LH_SCORE_POSITION;
    switch (kv->numbers.budgets.heads) {
    /* only the device knows how long heads are; where nothing has to go, nothing goes */
    case LH_HEADS_ADAPTIVE: return job->seen - job->visible_from > budget;
    case LH_HEADS_PROFILE: return held > heads * budget;
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
    lh_exec_latch(&kv->exec, lh_calloc(&positions, room.rows, sizeof *positions));
    for (int64_t r = 0; r < room.rows && positions; r++)
        positions[r] = (int32_t)lh_policy_row_at(&kv->numbers, job->seen, r);
    if (positions) {
        lh_ring_unroll(ring, &kv->exec, positions, room.rows, room.q);
        lh_evict_put_positions(kv->evictor, positions, room.rows);
    }
    lh_free(positions);
    *out = (lh_query_rows){.q = room.q, /* of the entries that are held now: no log-sum-exps are known */
                           .positions = room.positions,
                           .first = job->seen - room.rows,
                           .tokens = room.rows,
                           .first_rows = kv->numbers.first_rows,
                           .q_ld = ring->shape.width};
    return 1;
}

/* Collective, as lh_kv_evict_layer. */
static void select_and_compact(lh_kv *kv, lh_evict_job *job, lh_arena *arena)
{
    lh_kv_layer *layer = &kv->layers[job->layer.index];
    lh_query_rows rows;
    int is_latest = layer->latest.sums && layer->latest.position == job->seen - 1;
    if (is_latest)
        job->latest = &layer->latest;
    else if (unroll_ring(kv, job, &rows))
        job->rows = &rows;
    if (kv->stats.norms >= 0 && layer->normless > 0 && kv->timeline.phase == LH_KV_DECODE)
        LH_LATCH(&kv->exec, lh_snapshot_save_stats(&layer->snapshot, arena, &kv->exec));
    lh_evict_select(kv->evictor, job, NULL);
    compact(kv, job->layer.index, arena);
}

void lh_kv_evict_layer(lh_kv *kv, lh_evict_job *job, lh_arena *arena)
{
    const lh_heads *h = &kv->shape.heads;
    lh_heads_budget budgets = kv->numbers.budgets.heads;
    const int64_t *lens = arena->len;
    int64_t heads = h->kv_count;
    int apart = budgets != LH_HEADS_UNIFORM; /* heads have budgets of their own */
    int columns = exchanges_columns(kv);
    /* all heads hold as many entries, or nobody asks how many: adaptive heads are counted on the device */
    int alike = apart ? budgets == LH_HEADS_ADAPTIVE && !columns : !lh_kv_slides(&kv->shape, job->layer.index);
    int gathers = (columns || apart) && !alike;
    if (gathers) {
        if (budgets == LH_HEADS_PROFILE) LH_LATCH(&kv->exec, lh_arena_pull_len(arena, &kv->exec));
        lh_exec_latch(&kv->exec, lh_kv_gather_lens(kv, lens + h->counted_first - h->kv_first, kv->arrays.offsets));
        lens = kv->arrays.offsets;
        heads = h->kv_heads;
    }
    if (!measure(kv, job, lens, heads)) return;
    if (gathers) lh_kv_make_work_everywhere(kv, job->cols);
    select_and_compact(kv, job, arena);
}

/* ---- all layers ---- */

typedef enum occasion { UNSEEN_GO, POLICY_IS_DUE } occasion;

/* Collective where lh_kv_evict_layer is. */
static void evict(lh_kv *kv, occasion when)
{
    if (when == POLICY_IS_DUE)
        lh_kv_make_work_everywhere(kv, 0);
    else
        lh_kv_make_work(kv, 0);
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        int64_t budget = kv->arrays.budgets[l];
        lh_arena *arena = &kv->layers[l].arena;
        lh_evict_job job = lh_kv_job(kv, l, arena, kv->timeline.seen);
        job.number = kv->timeline.evictions + lh_kv_block_count(&kv->numbers, budget, kv->prompt.tokens);
        job.protect = lh_policy_protect(
            &kv->numbers, &(lh_protect_request){.budget = budget, .seen = job.seen, .visible_from = job.visible_from});
        lh_kv_drop_unseen(kv, &job, arena);
        if (when == POLICY_IS_DUE) lh_kv_evict_layer(kv, &job, arena);
    }
    LH_LATCH(&kv->exec, ask_lens(kv));
}

/* A question made the heads longer than decoding will: what was evicted after it goes back. A snapshot's entries keep
 * their room. */
static lh_status trim(lh_kv *kv)
{
    int64_t *caps = kv->arrays.kept;
    kv->reserved = (lh_reserved){0};
    kv->epoch++;
    LH_TRY(lh_kv_fetch_lens(kv));
    lh_evictor_free(kv->evictor);
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_kv_layer *layer = &kv->layers[l];
        lh_arena *arena = &layer->arena;
        lh_layer_request request = {.layer = l, .budget = kv->arrays.budgets[l], .prompt = kv->prompt};
        int shrinks = 0;
        lh_latest_row_free(&layer->latest, lh_kv_device(kv));
        for (int64_t h = 0; h < arena->view.heads; h++) {
            int64_t wanted = arena->len[h] + lh_kv_slack(&kv->shape, &kv->numbers, &request, arena->len[h]);
            if (layer->snapshot.len) wanted = lh_max_i64(wanted, layer->snapshot.len[h]);
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
        if (kv->stats.norms >= 0) kv->layers[l].normless += tokens;
    }
    kv->timeline.seen += tokens;
    kv->reserved.tokens = lh_max_i64(0, kv->reserved.tokens - tokens); /* nothing else takes any */
    return slides;
}

lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    double start = lh_kv_now();
    int64_t every = kv->numbers.evicts ? kv->numbers.every : 0, before = kv->timeline.steps;
    int slides = take_in(kv, tokens);
    if (what == LH_KV_STEP) kv->timeline.steps += tokens;
    int due = every && (what == LH_KV_BLOCK || kv->timeline.steps / every > before / every);
    if (!due && !slides) {
        kv->evict_s += lh_kv_now() - start;
        return LH_OK;
    }
    if (due && !kv->timeline.budgets_made) lh_kv_make_budgets(kv, kv->timeline.seen);
    kv->timeline.evictions += due;
    evict(kv, due ? POLICY_IS_DUE : UNSEEN_GO);
    if (what == LH_KV_BLOCK) LH_LATCH(&kv->exec, trim(kv));
    lh_status st = lh_exec_agree(&kv->exec);
    if (st == LH_OK && due && kv->reserved.after_eviction) kv->reserved.tokens = kv->reserved.after_eviction;
    kv->evict_s += lh_kv_now() - start;
    return st;
}
