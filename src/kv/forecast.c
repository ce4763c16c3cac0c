/* A run without its numbers: caches are opened, filled and evicted on a device that only counts. Such a device
 * computes no lengths, so this file writes the expected lengths into the host's arrays. */
#include "kv/forecast.h"

#include "exec/exec.h"
#include "kernels/ragged.h"
#include "kv/kv_impl.h"

typedef struct dry_run {
    const lh_kv_forecast_request *request;
    lh_kv_shape shape;
    lh_projection *projections; /* without weights */
    lh_rotation *rotations;
    lh_counting on;
    lh_kv **caches; /* [1 + other_count] */
    int64_t count;  /* of caches */
} dry_run;

static lh_status open_caches(dry_run *d)
{
    const lh_kv_forecast_request *c = d->request;
    d->count = 1 + c->other_count;
    LH_TRY(lh_calloc(&d->projections, d->shape.layers, sizeof *d->projections));
    LH_TRY(lh_calloc(&d->caches, d->count, sizeof *d->caches));
    for (int64_t l = 0; l < d->shape.layers; l++) d->projections[l].w = lh_plain_matrix(NULL, LH_BF16, 0);
    d->shape.projections = d->projections;
    LH_TRY(lh_calloc(&d->rotations, d->shape.layers, sizeof *d->rotations));
    d->shape.rotations = d->rotations;
    LH_TRY(lh_counting_open(&d->on, c->device, d->shape.heads.rank, d->shape.heads.ranks));
    for (int64_t i = 0; i < d->count; i++) {
        d->shape.given = c->given ? c->given[i] : NULL;
        LH_TRY(lh_kv_open(&d->caches[i], &d->on.exec, &d->shape, i ? &c->others[i - 1] : c->policy));
        if (i) LH_TRY(lh_kv_follow(d->caches[i], d->caches[0]));
    }
    return LH_OK;
}

static void close_caches(dry_run *d)
{
    for (int64_t i = d->count - 1; i >= 0 && d->caches; i--) lh_kv_close(d->caches[i]);
    lh_counting_close(&d->on);
    lh_free(d->caches);
    lh_free(d->rotations);
    lh_free(d->projections);
}

static void set_lens(lh_arena *arena, int64_t len)
{
    for (int64_t h = 0; h < arena->view.heads; h++) arena->len[h] = len;
}

/* ---- the prompt ---- */

/* A layer with a policy that evicts during prefill: the block after the first eviction; further blocks need as
 * much. */
static lh_status prefill_blocks(lh_kv *kv, int64_t layer, lh_ragged *view)
{
    int64_t budget = kv->arrays.budgets[layer], tokens = kv->prompt.tokens;
    lh_arena *arena = &kv->layers[layer].arena;
    if (tokens > budget) {
        set_lens(arena, lh_kv_only_slides(kv, layer) ? kv->shape.window - 1 : budget - kv->numbers.block);
        LH_TRY(lh_kv_prefill_next(kv, layer, budget, &tokens, &view));
    }
    set_lens(arena, lh_min_i64(budget, kv->prompt.tokens));
    return LH_OK;
}

static lh_status prefill_layer(dry_run *d, int64_t layer, lh_kv_forecast *out)
{
    lh_kv *first = d->caches[0];
    lh_ragged *view;
    LH_TRY(lh_kv_prefill_begin(first, layer, &view));
    out->one_layer = lh_max_i64(out->one_layer, lh_arena_held_bytes(&first->scratch));
    if (first->numbers.block) {
        LH_TRY(prefill_blocks(first, layer, view));
    } else {
        for (int64_t i = 0; i < d->count; i++) set_lens(lh_kv_prefill_arena(d->caches[i], layer), first->prompt.tokens);
    }
    return lh_kv_prefill_end(first, layer);
}

static lh_status prefill(dry_run *d, lh_kv_forecast *out)
{
    lh_kv_stats stats;
    LH_TRY(lh_kv_begin(d->caches[0], d->request->tokens, d->request->more));
    for (int64_t l = 0; l < d->shape.layers; l++) LH_TRY(prefill_layer(d, l, out));
    for (int64_t l = 0; l < d->shape.layers && d->request->layer_budgets; l++)
        d->request->layer_budgets[l] = lh_kv_layer_budget(d->caches[0], l);
    LH_TRY(lh_kv_stats_of(d->caches[0], &stats));
    lh_mem_usage usage = lh_device_usage(d->on.device);
    out->probe_tokens = lh_kv_probe_tokens(d->caches[0]);
    out->entries = stats.entries_held;
    out->counted = stats.entries_counted;
    out->summaries = stats.summary_bytes;
    out->held = usage.now[LH_MEM_KV];
    out->work = usage.peak[LH_MEM_WORK];
    out->prefill_peak = usage.peak_total;
    return LH_OK;
}

/* ---- after it ---- */

/* Whether the layers get their budgets when these tokens are taken in: the first eviction. */
static int divides(const lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    return lh_kv_is_due(kv, what, tokens) && !kv->timeline.budgets_made && lh_kv_seen(kv) + tokens > kv->numbers.budget;
}

/* Lengths of heads after `tokens` more tokens and the due evictions: the lengths before, or the budget. */
static void expect_lens(lh_kv *kv, int64_t tokens, int is_first)
{
    int64_t heads = kv->shape.heads.kv_count;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        int64_t *lens = kv->lens.host + (2 * l + 1) * heads;
        for (int64_t h = 0; h < heads; h++) {
            int64_t len = kv->layers[l].arena.len[h];
            lens[h] = len + tokens;
            if (is_first)
                lens[h] = lh_min_i64(lens[h], kv->layers[l].plan.later);
            else if (lh_evicts_again(&kv->numbers))
                lens[h] = lh_min_i64(lens[h], lh_max_i64(len, kv->arrays.budgets[l]));
            if (lh_kv_slides(&kv->shape, l)) lens[h] = lh_min_i64(lens[h], kv->shape.window - 1);
        }
    }
}

/* Records rows of a layer; their addresses are never read. */
static void record(lh_kv *kv, int64_t layer, int64_t first, int64_t tokens)
{
    const void *anywhere = kv->lens.device;
    lh_kv_rows rows = {
        .queries = {.q = anywhere, .lse = anywhere, .positions = anywhere, .first = first, .tokens = tokens}};
    if (first + tokens <= lh_kv_wants_rows(kv, layer)) return;
    if (tokens == 1) rows.queries.logits = lh_kv_row_logits(kv, layer);
    lh_kv_record(kv, layer, &rows);
}

/* A question, with its last row in a separate chunk, or one token of an answer. */
static lh_status take_in(lh_kv *kv, lh_kv_taken what, int64_t tokens)
{
    lh_ragged *view;
    int64_t seen = lh_kv_seen(kv);
    LH_TRY(lh_kv_reserve(kv, tokens));
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        LH_TRY(lh_kv_room(kv, l, tokens, &view));
        LH_TRY(lh_kv_attended(kv, l, seen + tokens, &view));
        if (tokens > 1) record(kv, l, seen, tokens - 1);
        record(kv, l, seen + tokens - 1, 1);
    }
    expect_lens(kv, tokens, divides(kv, what, tokens));
    return lh_kv_settle(kv, what, tokens);
}

/* One question, and its answer up to the first eviction after it and up to the budgets of layers; longer answers take
 * no more. */
static lh_status decode(const lh_kv_forecast_request *request, lh_kv *kv)
{
    const lh_policy_numbers *n = &kv->numbers;
    int64_t more = kv->prompt.more, block = lh_min_i64(request->block, more),
            steps = n->evicts && n->every ? n->every : 1;
    if (block) LH_TRY(take_in(kv, LH_KV_BLOCK, block));
    if (n->every && !kv->timeline.budgets_made && n->budgets.layers != LH_LAYERS_UNIFORM)
        steps += lh_max_i64(0, n->budget - lh_kv_seen(kv));
    steps = lh_min_i64(more - block, steps);
    for (int64_t i = 0; i < steps; i++) LH_TRY(take_in(kv, LH_KV_STEP, 1));
    return LH_OK;
}

/* Heads that compete may have any length: each is taken to have the longest tail after the blocks that a fork shares.
 */
static void expect_longest_tails(lh_kv *kv)
{
    const lh_policy_division *b = &kv->numbers.budgets;
    if (b->heads == LH_HEADS_UNIFORM && b->layers != LH_LAYERS_ADAPTIVE) return;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) {
            int64_t *len = &kv->layers[l].arena.len[h];
            if (*len > LH_SHARED_BLOCK) *len = lh_whole_blocks(*len) + LH_SHARED_BLOCK - 1;
        }
}

/* A fork takes in a question, and its answer. */
static lh_status decode_fork(const dry_run *d, lh_kv *from)
{
    lh_status st = LH_OK;
    lh_kv *fork = NULL;
    expect_longest_tails(from);
    LH_TRY_DONE(lh_kv_fork(&fork, from, d->request->fork_more));
    LH_TRY_DONE(decode(d->request, fork));
done:
    lh_kv_close(fork);
    return st;
}

static lh_status run_dry(dry_run *d, lh_kv_forecast *out)
{
    LH_TRY(open_caches(d));
    LH_TRY(prefill(d, out));
    lh_device_reset_peak(d->on.device);
    for (int64_t i = 0; i < d->count; i++) LH_TRY(decode(d->request, d->caches[i]));
    out->decode_peak = lh_device_usage(d->on.device).peak_total;
    for (int64_t i = 0; i < d->count && d->request->fork_more; i++) {
        const int64_t held = lh_device_usage(d->on.device).now_total;
        lh_device_reset_peak(d->on.device);
        LH_TRY(decode_fork(d, d->caches[i]));
        const int64_t peak = lh_device_usage(d->on.device).peak_total;
        out->fork_peak = lh_max_i64(out->fork_peak, peak - held);
        out->decode_peak = lh_max_i64(out->decode_peak, peak);
    }
    return LH_OK;
}

lh_status lh_kv_forecast_make(lh_kv_forecast *out, const lh_kv_shape *shape, const lh_kv_forecast_request *request)
{
    dry_run d = {.request = request, .shape = *shape};
    *out = (lh_kv_forecast){0};
    lh_status st = run_dry(&d, out);
    close_caches(&d);
    return st;
}
