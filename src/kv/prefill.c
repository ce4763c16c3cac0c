#include <assert.h>
#include <string.h>

#include "kv/kv_impl.h"

/* Work space for the evictions of the whole prefill. */
static lh_status make_work(lh_kv *kv)
{
    lh_work_request need = {.ld = kv->prompt.tokens};
    for (int64_t l = 0; l < kv->shape.layers; l++) lh_kv_add_need(&need, &kv->shape, &kv->fixed, &kv->layers[l].plan);
    if ((kv->last_evicted < 0 && !need.counted && !kv->leader) || kv->fixed.block) return LH_OK;
    lh_work_size(&kv->work, &kv->shape, &kv->fixed, &need);
    LH_TRY(lh_parts_alloc(kv->work.at, kv->work.bytes, LH_WORK_PARTS, kv->place.stream));
    if (!lh_kv_needs_rows(&kv->fixed) || lh_kv_observes_again(&kv->fixed) || !need.scored) return LH_OK;
    LH_TRY(lh_kv_alloc_rows(kv, kv->prompt.tokens));
    return LH_OK;
}

/* Positions of the observed rows of a prompt. */
static lh_status number_rows(lh_kv *kv)
{
    lh_status st = LH_OK;
    int64_t rows = lh_policy_rows(&kv->fixed, kv->prompt.tokens);
    int32_t *positions = NULL;
    if (!kv->rows.at[LH_ROWS_AT]) goto done;
    LH_TRY_DONE(lh_calloc(&positions, rows, sizeof *positions));
    for (int64_t r = 0; r < rows; r++) positions[r] = (int32_t)lh_policy_row_at(&kv->fixed, kv->prompt.tokens, r);
    LH_TRY_DONE(lh_stream_put(kv->place.stream, kv->rows.at[LH_ROWS_AT], positions, rows * (int64_t)sizeof *positions));
done:
    lh_free(positions);
    return st;
}

static lh_status alloc_even(lh_kv *kv, lh_pool *pool, int64_t cap)
{
    lh_status st = LH_OK;
    int64_t *caps = NULL;
    LH_TRY_DONE(lh_calloc(&caps, pool->view.heads, sizeof *caps));
    for (int64_t h = 0; h < pool->view.heads; h++) caps[h] = cap;
    LH_TRY_DONE(lh_pool_alloc(pool, kv->place.stream, caps));
done:
    lh_free(caps);
    return st;
}

lh_status lh_kv_begin(lh_kv *kv, int64_t tokens, int64_t more)
{
    if (tokens < 1 || tokens > INT32_MAX || more < 0)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens and %lld more cannot be cached: it must have 1 to 2^31 - 1 tokens",
                (long long)tokens, (long long)more);
    /* the bins of score summaries count in 32 bits */
    int64_t together =
        kv->shape.heads.kv_heads * (kv->plan.budgets.layers == LH_LAYERS_ADAPTIVE ? kv->shape.layers : 1);
    if (kv->plan.budgets.heads == LH_HEADS_ADAPTIVE && tokens > INT32_MAX / together)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens is too long for budgets that %lld heads share", (long long)tokens,
                (long long)together);
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = tokens, .more = more}));
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.evicts) kv->last_evicted = l;
    if (kv->fixed.evicts && kv->fixed.budgets.layers == LH_LAYERS_ADAPTIVE) LH_TRY(lh_kv_open_over_layers(kv));
    LH_TRY(make_work(kv));
    LH_TRY(number_rows(kv));
    for (int64_t i = 0; i < kv->follower_count; i++) LH_TRY(lh_kv_begin(kv->followers[i], tokens, more));
    return LH_OK;
}

static lh_status begin_expecting(lh_kv *kv, int64_t layer)
{
    if (kv->fixed.score.source == LH_SCORE_EXPECTED && kv->layers[layer].plan.scored)
        LH_TRY(lh_kv_expect_begin(kv, layer));
    for (int64_t i = 0; i < kv->follower_count; i++) LH_TRY(begin_expecting(kv->followers[i], layer));
    return LH_OK;
}

lh_status lh_kv_prefill_begin(lh_kv *kv, int64_t layer, lh_ragged **view)
{
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_pool *pool = lh_kv_prefill_pool(kv, layer);
    if (plan->evicts) {
        if (!pool->slots) LH_TRY(alloc_even(kv, pool, kv->prompt.tokens));
        memset(pool->len, 0, (size_t)pool->view.heads * sizeof *pool->len);
        LH_TRY(lh_pool_push_len(pool, kv->place.stream));
    } else {
        LH_TRY(alloc_even(kv, pool, plan->kept + plan->slack));
    }
    LH_TRY(lh_kv_lend(kv, layer));
    LH_TRY(begin_expecting(kv, layer));
    *view = &pool->view;
    return LH_OK;
}

/* Rows at positions [first, end) that are kept, from row `to` on. */
typedef struct stretch {
    int64_t first, end, to;
} stretch;

/* Those of them that are among `rows`. */
static lh_status keep_stretch(lh_kv *kv, const lh_kv_rows *rows, const stretch *s)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t kept = lh_policy_rows(&kv->fixed, kv->prompt.tokens), width = h->q_count * kv->shape.head_dim;
    int64_t skip = s->first > rows->first ? s->first - rows->first : 0;
    int64_t left = s->end - rows->first < rows->tokens ? s->end - rows->first : rows->tokens, count = left - skip;
    int64_t row = s->to + rows->first + skip - s->first;
    if (count <= 0) return LH_OK;
    assert(row + count <= kept);
    float *q = lh_kv_own_q(kv, kept) + row * width, *lse = lh_kv_own_lse(kv, kept) + row * h->q_count;
    int dense = rows->q_ld == width;
    for (int64_t r = 0; r < (dense ? 1 : count); r++)
        LH_TRY(lh_stream_copy(kv->place.stream, q + r * width, rows->q + (skip + r) * rows->q_ld,
                              (dense ? count : 1) * width * (int64_t)sizeof *q, LH_COPY_ON_DEVICE));
    LH_TRY(lh_stream_copy(kv->place.stream, lse, rows->lse + skip * h->q_count,
                          count * h->q_count * (int64_t)sizeof *lse, LH_COPY_ON_DEVICE));
    return LH_OK;
}

/* Rows that the layer's own eviction observes, at the end of its prefill: the first ones of the prompt, and the last.
 */
static lh_status keep_rows(lh_kv *kv, const lh_kv_rows *rows)
{
    int64_t tokens = kv->prompt.tokens, head = kv->fixed.first_rows;
    LH_TRY(keep_stretch(kv, rows, &(stretch){.end = head}));
    LH_TRY(keep_stretch(kv, rows, &(stretch){tokens - lh_policy_rows(&kv->fixed, tokens) + head, tokens, head}));
    return LH_OK;
}

/* What becomes of query rows: they are kept until the layer's eviction, counted as they pass, or make up what is
 * expected of others. */
typedef enum use { UNUSED, KEPT, COUNTED, EXPECTED } use;

static use use_of_rows(const lh_kv *kv, int64_t layer)
{
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    if (kv->fixed.score.source == LH_SCORE_EXPECTED) return plan->scored && !kv->clock.seen ? EXPECTED : UNUSED;
    if (kv->fixed.score.source != LH_SCORE_ATTENTION) return UNUSED;
    if (kv->fixed.score.running) {
        int counts = kv->clock.seen ? kv->fixed.every > 0 : lh_kv_counts(&kv->fixed, plan) && !kv->twin;
        return counts ? COUNTED : UNUSED;
    }
    return plan->scored && !kv->clock.seen ? KEPT : UNUSED;
}

/* Whether the last rows are kept to be observed again. */
static int rings(const lh_kv *kv, int64_t layer)
{
    return kv->layers[layer].ring.q && (kv->fixed.every || !kv->clock.seen);
}

/* The last row is counted as it passes. */
static int counts_latest(const lh_kv *kv, int64_t layer)
{
    return rings(kv, layer) && lh_kv_counts_latest(&kv->shape, &kv->fixed, layer);
}

int64_t lh_kv_wants_rows(const lh_kv *kv, int64_t layer)
{
    int wanted = rings(kv, layer) || use_of_rows(kv, layer) != UNUSED;
    if (wanted && kv->fixed.block && !kv->clock.seen) return 0;
    if (kv->clock.seen) return wanted ? 0 : INT64_MAX;
    int64_t first = kv->prompt.tokens - (wanted ? lh_policy_rows(&kv->fixed, kv->prompt.tokens) : 0);
    if (use_of_rows(kv, layer) == EXPECTED || (wanted && kv->fixed.first_rows)) first = 0;
    for (int64_t i = 0; i < kv->follower_count; i++) {
        int64_t other = lh_kv_wants_rows(kv->followers[i], layer);
        first = other < first ? other : first;
    }
    return first;
}

lh_row_logits lh_kv_row_logits(lh_kv *kv, int64_t layer)
{
    int counted = use_of_rows(kv, layer) == COUNTED || counts_latest(kv, layer);
    if (!kv->clock.seen || kv->shape.heads.split || !counted) return (lh_row_logits){0};
    if (kv->counting == LH_OK) kv->counting = lh_kv_make_work(kv, 0);
    return kv->counting == LH_OK ? (lh_row_logits){kv->work.at[LH_WORK_LOGITS], kv->work.ld} : (lh_row_logits){0};
}

/* Collective where statistics go on and groups are split. */
static lh_status use_rows(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    lh_status st = LH_OK;
    use what = use_of_rows(kv, layer);
    double start = lh_kv_now();
    if (rings(kv, layer)) LH_TRY_DONE(lh_kv_ring_record(kv, layer, rows));
    kv->layers[layer].latest.row = -1;
    if (rows->logits.at && counts_latest(kv, layer) && kv->counting == LH_OK)
        kv->counting = lh_kv_count_latest(kv, layer, rows);
    if (what == KEPT) LH_TRY_DONE(keep_rows(kv, rows));
    if (what == COUNTED) LH_TRY_DONE(lh_kv_count_rows(kv, layer, rows));
    if (what == EXPECTED) LH_TRY_DONE(lh_kv_expect_rows(kv, layer, rows));
done:
    kv->evict_s += lh_kv_now() - start;
    return st;
}

/* The keys of slots are turned by what the host knows, and so is the gain of a row. */
int lh_kv_records(const lh_kv *kv)
{
    return !lh_kv_turns(&kv->fixed) &&
           !(kv->fixed.score.running && (kv->fixed.score.gain || kv->fixed.score.non_causal));
}

lh_status lh_kv_take_counting(lh_kv *kv)
{
    lh_status st = kv->counting;
    kv->counting = LH_OK;
    return st;
}

int64_t lh_kv_moves(const lh_kv *kv)
{
    int64_t moves = kv->moves;
    for (int64_t l = 0; l < kv->shape.layers; l++) moves += kv->layers[l].pool.moves;
    return moves;
}

void lh_kv_again(lh_kv *kv)
{
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (counts_latest(kv, l)) kv->layers[l].latest.row = kv->clock.seen;
}

lh_status lh_kv_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    LH_TRY(use_rows(kv, layer, rows));
    for (int64_t i = 0; i < kv->follower_count && !kv->clock.seen; i++)
        LH_TRY(lh_kv_record(kv->followers[i], layer, rows));
    return LH_OK;
}

/* ---- the end of a layer ---- */

lh_status lh_kv_compact_out(lh_kv *kv, const lh_eviction *e, int64_t *counts)
{
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
    return LH_OK;
}

static lh_status check_appended(lh_kv *kv, int64_t layer, lh_pool *pool)
{
    LH_TRY(lh_pool_pull_len(pool, kv->place.stream));
    for (int64_t h = 0; h < pool->view.heads; h++)
        if (pool->len[h] != kv->prompt.tokens)
            LH_FAIL(LH_EINTERNAL, "layer %lld holds %lld of %lld tokens at the end of its prefill", (long long)layer,
                    (long long)pool->len[h], (long long)kv->prompt.tokens);
    return LH_OK;
}

/* Competing entries of every head, while all heads hold the whole prompt. */
static const int64_t *even_room(lh_kv *kv, const lh_layer_plan *plan)
{
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++)
        kv->traffic.room[g] = kv->prompt.tokens - plan->visible_from - plan->protect.sinks - plan->protect.recents;
    return kv->traffic.room;
}

/* What stays goes from the pool of the prefill into the layer's own. */
static lh_status settle_layer(lh_kv *kv, lh_eviction *e, lh_status *local)
{
    const lh_layer_plan *plan = &kv->layers[e->layer].plan;
    lh_pool *own = &kv->layers[e->layer].pool;
    int64_t *counts = kv->traffic.kept;
    if (e->pool == own) return LH_OK;
    if (own->form.positions == LH_POSITIONS_IMPLIED) { /* all of it stays */
        if (*local == LH_OK) *local = alloc_even(kv, own, plan->kept + plan->slack);
        for (int64_t h = 0; h < own->view.heads && *local == LH_OK; h++) {
            own->len[h] = kv->prompt.tokens;
            *local = lh_entries_copy(kv->place.stream, &(lh_slots){&own->view, own->offset[h]},
                                     &(lh_slots){&e->pool->view, e->pool->offset[h]}, own->len[h]);
        }
        if (*local == LH_OK) *local = lh_pool_push_len(own, kv->place.stream);
        return LH_OK;
    }
    if (kv->over && e->ranked) return lh_kv_settle_over_layers(kv, e, local);
    LH_TRY(lh_kv_choose(kv, e, local, counts));
    if (*local == LH_OK) *local = lh_kv_compact_out(kv, e, counts);
    return LH_OK;
}

/* Collective. */
static lh_status end_layer(lh_kv *kv, int64_t layer)
{
    lh_status local = kv->counting;
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_pool *pool = lh_kv_prefill_pool(kv, layer);
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
    if (kv->layout.norms >= 0 && !kv->fixed.block) kv->layers[layer].fresh = kv->prompt.tokens;
    if (local == LH_OK) local = kv->fixed.block ? lh_kv_end_blocks(kv, layer) : check_appended(kv, layer, pool);
    if (lh_kv_counts(&kv->fixed, plan) && !kv->twin && !kv->fixed.block) LH_TRY(lh_kv_join_stats(kv, &e, &local));
    LH_TRY(settle_layer(kv, &e, &local));
    if (local == LH_OK) local = lh_kv_unturn(kv, layer);
    if (layer == kv->last_evicted && !kv->leader) lh_pool_free(&kv->scratch, kv->place.stream);
    if (layer == kv->shape.layers - 1) {
        kv->moves++;
        lh_work_free(&kv->work, kv->place.stream);
        if (!lh_kv_observes_again(&kv->fixed)) lh_row_space_free(&kv->rows, kv->place.stream);
        kv->clock.seen = kv->prompt.tokens;
    }
    if (local == LH_OK && kv->listener.kept)
        local = kv->listener.kept(kv->listener.self, layer, &kv->layers[layer].pool.view);
    kv->evict_s += lh_kv_now() - start;
    LH_TRY(lh_comm_agree(kv->place.comm, local));
    return LH_OK;
}

lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer)
{
    for (int64_t i = 0; i < kv->follower_count; i++) LH_TRY(end_layer(kv->followers[i], layer));
    LH_TRY(end_layer(kv, layer));
    /* not before: followers may share statistics */
    for (int64_t i = 0; i < kv->follower_count && layer == kv->shape.layers - 1; i++) lh_kv_take_back(kv->followers[i]);
    return LH_OK;
}
