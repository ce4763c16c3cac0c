#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_room(lh_kv *kv, int64_t layer, int64_t tokens, lh_ragged **view)
{
    lh_pool *pool = &kv->layers[layer].pool;
    int64_t *caps = kv->traffic.kept, small = 0;
    for (int64_t h = 0; h < pool->view.heads; h++) small |= pool->len[h] + tokens > pool->cap[h];
    /* once in a while, not at every step: an eighth more */
    for (int64_t h = 0; h < pool->view.heads; h++) {
        int64_t need = pool->len[h] + tokens + (tokens == 1 ? pool->len[h] / 8 + 64 : 0);
        caps[h] = need > pool->cap[h] ? need : pool->cap[h]; /* a mark may want back what was evicted */
    }
    if (small) LH_TRY(lh_pool_resize(pool, kv->place.stream, caps));
    *view = &pool->view;
    return LH_OK;
}

/* ---- lengths after evictions ---- */

lh_status lh_kv_ask_lens(lh_kv *kv)
{
    kv->behind = 1;
    return lh_stream_copy(kv->place.stream, kv->fetched, kv->blocks, lh_kv_blocks_bytes(&kv->shape), LH_COPY_TO_HOST);
}

lh_status lh_kv_fetch_lens(lh_kv *kv)
{
    int64_t heads = kv->shape.heads.kv_count;
    if (!kv->behind) return LH_OK;
    LH_TRY(lh_stream_sync(kv->place.stream));
    for (int64_t l = 0; l < kv->shape.layers && heads > 0; l++)
        memcpy(kv->layers[l].pool.len, kv->fetched + (2 * l + 1) * heads, (size_t)heads * sizeof *kv->fetched);
    kv->behind = 0;
    return LH_OK;
}

/* ---- room ---- */

/* Tokens that every head of this rank has slots for. */
static int64_t least_room(const lh_kv *kv)
{
    int64_t room = INT32_MAX;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
            room = lh_min_i64(room, kv->layers[l].pool.cap[h] - kv->layers[l].pool.len[h]);
    return room;
}

/* 1: after the next eviction of a step no head of this rank holds more than now. All ranks know of the others: heads
 * that compete among each other, and those that slide out of sight, come to hold more. */
static int is_full(const lh_kv *kv)
{
    const lh_policy_numbers *p = &kv->fixed;
    int full = p->evicts && p->every > 0 && p->budgets.heads == LH_HEADS_UNIFORM &&
               p->budgets.layers != LH_LAYERS_ADAPTIVE && kv->clock.budgets_made;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        full &= !lh_kv_slides(&kv->shape, l);
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) full &= kv->layers[l].pool.len[h] >= kv->budgets[l];
    }
    return full;
}

lh_status lh_kv_reserve(lh_kv *kv, int64_t tokens)
{
    lh_status local = LH_OK;
    lh_ragged *view;
    int64_t least[2] = {-1, 0}; /* room, and whether all are full */
    local = lh_kv_fetch_lens(kv);
    if (tokens == 1 && kv->assured > 0) return local;
    for (int64_t l = 0; l < kv->shape.layers && local == LH_OK; l++) local = lh_kv_room(kv, l, tokens, &view);
    if (local == LH_OK) local = lh_kv_reserve_turn(kv, tokens);
    if (local == LH_OK) {
        least[0] = least_room(kv);
        least[1] = is_full(kv);
    }
    LH_TRY(lh_comm_allreduce(kv->place.comm, least, 2, LH_I64, LH_MIN));
    if (least[0] < 0) LH_TRY(lh_comm_agree(kv->place.comm, local)); /* some rank has failed */
    kv->assured = least[0];
    kv->assured_again = least[1] ? least[0] : 0;
    return LH_OK;
}

lh_status lh_kv_make_work(lh_kv *kv, int64_t cols)
{
    lh_status st = LH_OK;
    int64_t ld = cols;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++)
            if (kv->layers[l].pool.cap[h] > ld) ld = kv->layers[l].pool.cap[h];
    if (ld <= kv->work.ld) goto done;
    kv->moves++;
    lh_work_request need = lh_kv_decode_work(&kv->fixed, ld);
    lh_work_free(&kv->work, kv->place.stream);
    lh_work_size(&kv->work, &kv->shape, &kv->fixed, &need);
    LH_TRY_DONE(lh_parts_alloc(kv->work.at, kv->work.bytes, LH_WORK_PARTS, kv->place.stream));
done:
    if (st != LH_OK) lh_work_free(&kv->work, kv->place.stream);
    return st;
}

/* Where slots are positions they stay in order; and entries whose norms a further eviction asks for stay the last.
 * Elsewhere filling holes moves fewer. */
static int keeps_order(const lh_kv *kv, int64_t layer)
{
    int normless = kv->layout.norms >= 0 && kv->layers[layer].fresh > 0;
    return lh_kv_turns(&kv->fixed) || (normless && lh_kv_evicts_again(&kv->fixed));
}

static lh_status compact(lh_kv *kv, const lh_eviction *e)
{
    lh_compact_kind kind = keeps_order(kv, e->layer) ? LH_COMPACT_IN_ORDER : LH_COMPACT_FILL;
    LH_TRY(lh_kv_save_layer(kv, e->layer));
    LH_TRY(kv->place.ops->compact(kv->place.stream, &(lh_compact_args){.dst = &e->pool->view,
                                                                       .src = &e->pool->view,
                                                                       .state = kv->work.at[LH_WORK_STATE],
                                                                       .ld = kv->work.ld,
                                                                       .kind = kind}));
    return LH_OK;
}

lh_status lh_kv_drop_unseen(lh_kv *kv, const lh_eviction *e)
{
    lh_eviction all = *e;
    all.protect = (lh_protection){.budget = INT64_MAX};
    if (e->visible_from == 0) return LH_OK;
    LH_TRY(lh_kv_classify(kv, &all));
    LH_TRY(compact(kv, &all));
    return LH_OK;
}

/* What an eviction by the policy finds, in `heads` heads of lens[g] entries. 1: there may be something to evict: heads
 * are as long as the host knows, and one that holds no more than the budget loses nothing. */
static int measure(lh_kv *kv, lh_eviction *e, const int64_t *lens, int64_t heads)
{
    int64_t held = 0, budget = e->protect.budget;
    e->cols = 0;
    for (int64_t g = 0; g < heads; g++) {
        int64_t room = lens[g] - e->protect.sinks - e->protect.recents;
        kv->traffic.room[g] = room > 0 ? room : 0;
        held += lens[g];
        if (lens[g] > e->cols) e->cols = lens[g];
    }
    e->room = kv->traffic.room;
    e->ranked = e->protect.base > 0;
    e->scored = e->ranked && kv->fixed.score.source != LH_SCORE_POSITION;
    e->again = e->ranked && kv->fixed.score.source == LH_SCORE_ATTENTION && !kv->fixed.score.running;
    switch (kv->fixed.budgets.heads) {
    /* only the device knows how long heads are; where nothing has to go, nothing goes */
    case LH_HEADS_ADAPTIVE: return e->seen - e->visible_from > budget;
    case LH_HEADS_PROFILE: return held > heads * budget;
    default: return e->cols > budget;
    }
}

/* Whether an eviction exchanges columns of scores or statistics, and whether anything. */
static int exchanges_columns(const lh_kv *kv)
{
    return (kv->fixed.score.source == LH_SCORE_ATTENTION && kv->shape.heads.split) || kv->fixed.select.joint;
}

static int exchanges(const lh_kv *kv)
{
    return exchanges_columns(kv) || kv->fixed.budgets.heads != LH_HEADS_UNIFORM;
}

lh_status lh_kv_make_work_everywhere(lh_kv *kv, int64_t cols, lh_status *local)
{
    if (*local == LH_OK) *local = lh_kv_make_work(kv, cols);
    return exchanges(kv) ? lh_comm_agree(kv->place.comm, *local) : LH_OK;
}

lh_status lh_kv_evict_layer(lh_kv *kv, lh_eviction *e, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    const int64_t *lens = e->pool->len;
    int64_t heads = h->kv_count;
    int apart = kv->fixed.budgets.heads != LH_HEADS_UNIFORM; /* heads have budgets of their own */
    int columns = exchanges_columns(kv), together = columns || apart;
    /* all heads hold as many entries, or nobody asks how many: adaptive heads are counted on the device */
    int alike = apart ? kv->fixed.budgets.heads == LH_HEADS_ADAPTIVE && !columns : !lh_kv_slides(&kv->shape, e->layer);
    if (together && !alike) {
        if (kv->fixed.budgets.heads == LH_HEADS_PROFILE && *local == LH_OK)
            *local = lh_pool_pull_len(e->pool, kv->place.stream);
        LH_TRY(lh_kv_gather_lens(kv, lens + h->counted_first - h->kv_first, kv->traffic.offsets));
        lens = kv->traffic.offsets;
        heads = h->kv_heads;
    }
    if (!measure(kv, e, lens, heads)) return LH_OK;
    if (together && !alike) LH_TRY(lh_kv_make_work_everywhere(kv, e->cols, local));
    LH_TRY(lh_kv_choose(kv, e, local, NULL));
    if (*local == LH_OK) *local = compact(kv, e);
    return LH_OK;
}

typedef enum occasion { UNSEEN_GO, POLICY_IS_DUE } occasion;

/* Collective where evict_layer is. */
static lh_status evict(lh_kv *kv, occasion when, lh_status *local)
{
    if (when == POLICY_IS_DUE)
        LH_TRY(lh_kv_make_work_everywhere(kv, 0, local));
    else if (*local == LH_OK)
        *local = lh_kv_make_work(kv, 0);
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_eviction e = {.layer = l,
                         .pool = &kv->layers[l].pool,
                         .seen = kv->clock.seen,
                         .visible_from = lh_kv_visible_from(&kv->shape, l, kv->clock.seen),
                         .number =
                             kv->clock.evictions + lh_kv_block_count(&kv->fixed, kv->budgets[l], kv->prompt.tokens)};
        e.protect = lh_policy_protect(
            &kv->fixed,
            &(lh_protect_request){.budget = kv->budgets[l], .seen = e.seen, .visible_from = e.visible_from});
        if (*local == LH_OK) *local = lh_kv_drop_unseen(kv, &e);
        if (when == POLICY_IS_DUE) LH_TRY(lh_kv_evict_layer(kv, &e, local));
    }
    if (*local == LH_OK) *local = lh_kv_ask_lens(kv);
    return LH_OK;
}

/* A question made the heads longer than decoding will: what was evicted after it goes back. A mark's entries keep their
 * room. */
static lh_status trim(lh_kv *kv)
{
    int64_t *caps = kv->traffic.kept;
    kv->assured = kv->assured_again = 0;
    kv->moves++;
    LH_TRY(lh_kv_fetch_lens(kv));
    lh_work_free(&kv->work, kv->place.stream);
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_pool *pool = &kv->layers[l].pool;
        lh_layer_request request = {.layer = l, .budget = kv->budgets[l], .prompt = kv->prompt};
        lh_kv_free_latest(kv, &kv->layers[l].latest);
        int shrinks = 0;
        for (int64_t h = 0; h < pool->view.heads; h++) {
            int64_t marked = kv->is_marked ? kv->layers[l].saved.len[h] : 0;
            caps[h] = pool->len[h] + lh_kv_slack(&kv->shape, &kv->fixed, &request, pool->len[h]);
            if (caps[h] < marked) caps[h] = marked;
            if (caps[h] < pool->cap[h])
                shrinks = 1;
            else
                caps[h] = pool->cap[h];
        }
        if (shrinks) LH_TRY(lh_pool_resize(pool, kv->place.stream, caps));
    }
    return LH_OK;
}

lh_status lh_kv_settle(lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    lh_status st = LH_OK, local = kv->counting;
    double start = lh_kv_now();
    int64_t every = kv->fixed.evicts ? kv->fixed.every : 0, before = kv->clock.steps;
    int slides = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) kv->layers[l].pool.len[h] += tokens;
        slides |= lh_kv_slides(&kv->shape, l);
        if (kv->layout.norms >= 0) kv->layers[l].fresh += tokens;
    }
    kv->clock.seen += tokens;
    kv->assured = lh_max_i64(0, kv->assured - tokens); /* evictions make room, and nothing else takes any */
    if (what == LH_KV_STEP) kv->clock.steps += tokens;
    int due = every && (what == LH_KV_BLOCK || kv->clock.steps / every > before / every);
    if (!due && !slides) goto done;
    if (due && !kv->clock.budgets_made) lh_kv_make_budgets(kv, kv->clock.seen);
    kv->clock.evictions += due;
    LH_TRY_DONE(evict(kv, due ? POLICY_IS_DUE : UNSEEN_GO, &local));
    if (local == LH_OK && what == LH_KV_BLOCK) local = trim(kv);
    LH_TRY_DONE(lh_comm_agree(kv->place.comm, local));
    if (due && kv->assured_again) kv->assured = kv->assured_again;
done:
    kv->evict_s += lh_kv_now() - start;
    return st;
}
