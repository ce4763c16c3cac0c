#include <string.h>

#include "kv/kv_impl.h"

enum { TILE = 16384 }; /* columns whose sums of all query heads are held at a time */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

lh_policy_plan lh_kv_fix(const lh_policy_plan *plan, int64_t tokens)
{
    lh_policy_plan fixed = *plan;
    fixed.budget_is_share = fixed.rows_is_share = 0;
    fixed.budget_entries = lh_policy_entries(plan, tokens);
    fixed.rows = plan->rows_is_share ? lh_policy_rows(plan, tokens) : plan->rows;
    return fixed;
}

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer)
{
    return shape->sliding && shape->sliding[layer] && shape->window > 0;
}

lh_positions lh_kv_positions_of(const lh_kv_shape *shape, const lh_policy_plan *plan, int64_t layer)
{
    return plan->evicts || lh_kv_slides(shape, layer) ? LH_POSITIONS_STORED : LH_POSITIONS_IMPLIED;
}

int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen)
{
    return lh_kv_slides(shape, layer) ? most(0, seen - shape->window + 1) : 0;
}

int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_layer_request *request,
                    int64_t held)
{
    int64_t slack = request->prompt.more;
    if (fixed->evicts && fixed->every) slack = least(slack, most(0, request->budget - held) + fixed->every);
    if (lh_kv_slides(shape, request->layer)) slack = least(slack, most(0, shape->window - held));
    return slack;
}

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_layer_request *request)
{
    lh_layer_plan p = {.budget = request->budget};
    int64_t tokens = request->prompt.tokens;
    p.visible_from = lh_kv_visible_from(shape, request->layer, tokens);
    p.protect = lh_policy_protect(
        fixed, &(lh_protect_request){.budget = p.budget, .seen = tokens, .visible_from = p.visible_from});
    p.kept = p.protect.budget;
    p.evicts = p.kept < tokens;
    p.ranked = p.protect.base > 0 && p.kept < tokens - p.visible_from;
    p.scored = p.ranked && fixed->source == LH_SCORE_ATTENTION;
    p.positions = lh_kv_positions_of(shape, fixed, request->layer);
    p.slack = lh_kv_slack(shape, fixed, request, p.kept);
    return p;
}

int64_t lh_kv_blocks_bytes(const lh_kv_shape *shape)
{
    return (shape->layers + 1) * 2 * shape->heads.kv_count * (int64_t)sizeof(int64_t);
}

/* ---- work space ---- */

/* Floats that all ranks together exchange of the KV heads that several of them hold. */
static int64_t pieces_count(const lh_heads *heads, int64_t rows_per_head, int64_t ld)
{
    int64_t shared = 0;
    for (int64_t g = 0; g < heads->kv_heads; g++) {
        int first, sharers;
        lh_heads_sharers(heads, g, &first, &sharers);
        shared += sharers > 1;
    }
    return shared * rows_per_head * ld;
}

int64_t lh_work_size(lh_work *work, const lh_kv_shape *shape, const lh_policy_plan *fixed, const lh_work_request *need)
{
    const lh_heads *h = &shape->heads;
    const int64_t f32 = sizeof(float), i64 = sizeof(int64_t);
    int64_t all = 0, *bytes = work->bytes;
    memset(work, 0, sizeof *work);
    work->ld = need->ld;
    bytes[LH_WORK_STATE] = h->kv_count * need->ld;
    bytes[LH_WORK_COUNTS] = 3 * h->kv_count * i64;
    work->rows_per_head = need->scored && fixed->group_after_pool ? h->group : 1;
    int64_t scores = h->kv_count * work->rows_per_head * need->ld * f32;
    if (need->ranked) bytes[LH_WORK_RAW] = scores;
    if (need->ranked && fixed->heads == LH_HEADS_ADAPTIVE) bytes[LH_WORK_BINS] = LH_SUMMARY_BINS * i64;
    if (need->scored) {
        int64_t q_heads = h->split ? h->heads : h->q_count;
        work->rows = need->rows;
        work->tile = least(need->ld, TILE);
        bytes[LH_WORK_Q] = need->rows * q_heads * shape->head_dim * f32;
        bytes[LH_WORK_LSE] = need->rows * q_heads * f32;
        bytes[LH_WORK_ROWS] = need->rows * (int64_t)sizeof(int32_t);
        if (!fixed->group_after_pool) bytes[LH_WORK_SUMS] = (h->split ? h->group : h->q_count) * work->tile * f32;
        if (fixed->pool_kind != LH_POOL_NONE) bytes[LH_WORK_SHAPED] = scores;
        if (need->again) bytes[LH_WORK_AGAIN] = need->rows * h->q_count * (shape->head_dim + 1) * f32;
        if (need->again) bytes[LH_WORK_VIEWS] = need->rows * (int64_t)sizeof(lh_ragged);
        if (h->split) bytes[LH_WORK_PIECES] = pieces_count(h, work->rows_per_head, need->ld) * f32;
    }
    for (int i = 0; i < LH_WORK_PARTS; i++) all += bytes[i];
    return all;
}

lh_status lh_work_alloc(lh_work *work, lh_stream *stream)
{
    lh_status st = LH_OK;
    for (int i = 0; i < LH_WORK_PARTS; i++)
        LH_TRY(lh_device_alloc(lh_stream_device(stream), &work->at[i], work->bytes[i], LH_MEM_WORK));
done:
    if (st != LH_OK) lh_work_free(work, stream);
    return st;
}

void lh_work_free(lh_work *work, lh_stream *stream)
{
    for (int i = 0; i < LH_WORK_PARTS; i++) lh_device_free(lh_stream_device(stream), work->at[i]);
    memset(work, 0, sizeof *work);
}

lh_work_request lh_kv_decode_work(const lh_policy_plan *fixed, int64_t ld)
{
    int evicts = fixed->evicts && fixed->every > 0, scored = evicts && fixed->source == LH_SCORE_ATTENTION;
    return (lh_work_request){
        .ld = ld, .rows = scored ? fixed->rows : 0, .ranked = evicts, .scored = scored, .again = scored};
}

/* ---- forecast ---- */

lh_status lh_kv_plan(const lh_kv_shape *shape, const lh_policy_plan *plan, int64_t tokens, int64_t more,
                     lh_kv_forecast *out)
{
    lh_status st = LH_OK;
    int64_t *budgets = NULL, pools = 0, heads = shape->heads.kv_count, longest = 0;
    lh_policy_plan fixed = lh_kv_fix(plan, tokens);
    lh_work_request need = {.ld = tokens, .rows = lh_policy_rows(&fixed, tokens)};
    lh_kv_forecast f = {.held = lh_kv_blocks_bytes(shape) + shape->layers * lh_kv_ring_bytes(shape, &fixed)};
    lh_work work;
    LH_TRY(lh_calloc(&budgets, shape->layers, sizeof *budgets));
    lh_policy_layers(&fixed,
                     &(lh_layers_request){
                         .layers = shape->layers, .seen = tokens, .window = shape->window, .sliding = shape->sliding},
                     budgets);
    for (int64_t l = 0; l < shape->layers; l++) {
        lh_layer_plan p = lh_kv_layer_plan(
            shape, &fixed, &(lh_layer_request){.layer = l, .budget = budgets[l], .prompt = {tokens, more}});
        f.entries += heads * p.kept;
        f.held += lh_pool_bytes(shape, heads * (p.kept + p.slack), p.positions);
        need.ranked |= p.ranked;
        need.scored |= p.scored;
        longest = most(longest, p.kept + p.slack);
        if (!p.evicts) continue;
        f.one_layer = lh_pool_bytes(shape, heads * tokens, LH_POSITIONS_IMPLIED);
        pools = f.held; /* those that lie beside the scratch at the last eviction */
    }
    if (f.one_layer) f.observed = lh_work_size(&work, shape, &fixed, &need);
    lh_work_request later = lh_kv_decode_work(&fixed, longest);
    f.decoding = lh_work_size(&work, shape, &fixed, &later);
    f.peak = most(f.held, pools + f.one_layer + f.observed);
    *out = f;
done:
    lh_free(budgets);
    return st;
}
