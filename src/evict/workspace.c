#include "evict/workspace.h"

#include <string.h>

#include "base/minmax.h"
#include "evict/attention.h"
#include "evict/curve_room.h"
#include "evict/score_source.h"
#include "evict/turn_room.h"

/* AdaKV's search for the best entries of all heads. */
static void size_search(const lh_space_request *request, int64_t *bytes)
{
    const lh_heads *h = &request->shape->heads;
    const int64_t i32 = sizeof(int32_t), i64 = sizeof(int64_t);
    int over_layers = request->policy->budgets.layers == LH_LAYERS_ADAPTIVE;
    int64_t contests = request->layers, layers = over_layers ? request->shape->layers : contests;
    bytes[LH_SPACE_HISTOGRAMS] = h->counted_count * layers * LH_SUMMARY_BINS * i32;
    bytes[LH_SPACE_SUMMARY] = h->ranks * contests * (LH_SUMMARY_BINS + 1) * i32;
    bytes[LH_SPACE_SEARCH] = LH_SEARCH_ROUNDS * contests * (int64_t)sizeof(lh_search);
    bytes[LH_SPACE_CANDIDATES] = h->kv_heads * layers * (int64_t)sizeof(lh_candidate_counts);
    bytes[LH_SPACE_LIMITS] = layers * (int64_t)sizeof(lh_layer_limits);
    bytes[LH_SPACE_BUDGETS] = h->kv_heads * layers * i64;
}

/* What norms of values weigh scores with. */
static void size_norms(const lh_space_request *request, int64_t *bytes)
{
    const lh_heads *h = &request->shape->heads;
    int64_t row = request->need.ld * (int64_t)sizeof(float), q_heads = h->split ? h->heads : h->q_count;
    if (request->policy->score.value_prior) bytes[LH_SPACE_PRIOR] = 2 * h->kv_count * row;
    if (lh_policy_projects(request->policy)) bytes[LH_SPACE_NORMS] = (q_heads + h->kv_count) * row;
}

void lh_space_sizes(const lh_space_request *request, int64_t bytes[LH_SPACE_PARTS])
{
    const lh_policy_numbers *p = request->policy;
    const lh_heads *h = &request->shape->heads;
    const lh_source *source = lh_source_of(p);
    int64_t row = h->kv_count * request->need.ld * (int64_t)sizeof(float), parts = lh_score_parts(p, h);
    memset(bytes, 0, LH_SPACE_PARTS * sizeof *bytes);
    bytes[LH_SPACE_STATE] = h->kv_count * request->need.ld;
    bytes[LH_SPACE_COUNTS] = 3 * request->layers * h->kv_count * (int64_t)sizeof(int64_t);
    if (request->need.ranked) {
        bytes[LH_SPACE_RAW] = parts * row;
        if (p->shape.pool != LH_POOL_NONE) bytes[LH_SPACE_SHAPED] = parts * row;
        if (p->select.kind != LH_SELECT_TOPK) bytes[LH_SPACE_SECOND] = row;
        if (p->select.kind == LH_SELECT_TOPK_KEYS) lh_turn_space(request, bytes);
        if (lh_competes_by_losses(&p->budgets)) lh_curve_space(request, bytes);
        if (p->select.joint)
            bytes[LH_SPACE_JOINT] = request->layers * (request->need.ld + 1) * (int64_t)sizeof(int64_t);
        if (p->budgets.heads == LH_HEADS_ADAPTIVE) size_search(request, bytes);
    }
    if (request->need.scored) size_norms(request, bytes);
    if (lh_keeps_rows(p)) {
        const int64_t tokens = request->tokens, rows = tokens ? lh_policy_rows(p, tokens) : p->rows;
        lh_attention_row_space(request, lh_max_i64(rows, lh_policy_references(p, tokens)), 0, bytes);
    }
    if (source && source->space) source->space(request, bytes);
}
