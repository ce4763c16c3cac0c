#include "evict/workspace.h"

#include <string.h>

#include "base/minmax.h"
#include "evict/score_source.h"

/* AdaKV's search for the best entries of all heads. */
static void size_search(const lh_space_request *need, int64_t *bytes)
{
    const lh_heads *h = &need->shape->heads;
    const int64_t i32 = sizeof(int32_t), i64 = sizeof(int64_t);
    int over_layers = need->policy->budgets.layers == LH_LAYERS_ADAPTIVE;
    int64_t layers = over_layers ? need->shape->layers : 1;
    bytes[LH_SPACE_HISTOGRAMS] = h->counted_count * layers * LH_SUMMARY_BINS * i32;
    bytes[LH_SPACE_SUMMARY] = (LH_SUMMARY_BINS + 1) * i32;
    bytes[LH_SPACE_SEARCH] = LH_SEARCH_ROUNDS * (int64_t)sizeof(lh_search);
    bytes[LH_SPACE_CANDIDATES] = h->kv_heads * layers * (int64_t)sizeof(lh_candidate_counts);
    if (over_layers) bytes[LH_SPACE_SAFEGUARDS] = layers * (int64_t)sizeof(lh_head_safeguard);
    bytes[LH_SPACE_BUDGETS] = h->kv_heads * layers * i64;
}

/* What norms of values weigh scores with. */
static void size_norms(const lh_space_request *need, int64_t *bytes)
{
    const lh_heads *h = &need->shape->heads;
    int64_t row = need->ld * (int64_t)sizeof(float), q_heads = h->split ? h->heads : h->q_count;
    if (need->policy->score.value_prior) bytes[LH_SPACE_PRIOR] = 2 * h->kv_count * row;
    if (need->policy->select.kind == LH_SELECT_TWO_STAGE) bytes[LH_SPACE_NORMS] = (q_heads + h->kv_count) * row;
}

void lh_space_sizes(const lh_space_request *need, int64_t bytes[LH_SPACE_PARTS])
{
    const lh_policy_numbers *p = need->policy;
    const lh_heads *h = &need->shape->heads;
    const lh_source *source = lh_source_of(p);
    int64_t row = h->kv_count * need->ld * (int64_t)sizeof(float), parts = lh_score_parts(p, h);
    memset(bytes, 0, LH_SPACE_PARTS * sizeof *bytes);
    bytes[LH_SPACE_STATE] = h->kv_count * need->ld;
    bytes[LH_SPACE_COUNTS] = 3 * h->kv_count * (int64_t)sizeof(int64_t);
    if (need->ranked) {
        bytes[LH_SPACE_RAW] = parts * row;
        if (p->shape.pool != LH_POOL_NONE) bytes[LH_SPACE_SHAPED] = parts * row;
        if (p->select.kind != LH_SELECT_TOPK) bytes[LH_SPACE_SECOND] = row;
        if (p->select.joint) bytes[LH_SPACE_JOINT] = (need->ld + 1) * (int64_t)sizeof(int64_t);
        if (p->budgets.heads == LH_HEADS_ADAPTIVE) size_search(need, bytes);
    }
    if (need->scored) size_norms(need, bytes);
    if (source && source->space) source->space(need, bytes);
}

static int64_t sum(const lh_space_request *need, int first, int end)
{
    int64_t bytes[LH_SPACE_PARTS], all = 0;
    lh_space_sizes(need, bytes);
    for (int i = first; i < end; i++) all += bytes[i];
    return all;
}

int64_t lh_space_bytes(const lh_space_request *need)
{
    return sum(need, 0, LH_SPACE_FIRST_OF_ROWS);
}

int64_t lh_space_row_bytes(const lh_space_request *need)
{
    return sum(need, LH_SPACE_FIRST_OF_ROWS, LH_SPACE_PARTS);
}

lh_space_request lh_space_of_decoding(const lh_evict_shape *shape, const lh_policy_numbers *policy, int64_t ld)
{
    int evicts = lh_evicts_again(policy);
    return (lh_space_request){.shape = shape,
                              .policy = policy,
                              .ld = ld,
                              .ranked = evicts,
                              .scored = evicts && policy->score.source != LH_SCORE_POSITION,
                              .steps = evicts};
}
