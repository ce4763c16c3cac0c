/* How much work space evictions and observations take. */
#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_parts_alloc(void **at, const int64_t *bytes, int parts, lh_stream *stream)
{
    for (int i = 0; i < parts; i++) LH_TRY(lh_device_alloc(lh_stream_device(stream), &at[i], bytes[i], LH_MEM_WORK));
    return LH_OK;
}

static void free_parts(void **at, int parts, lh_stream *stream)
{
    for (int i = 0; i < parts; i++) lh_device_free(lh_stream_device(stream), at[i]);
}

void lh_work_free(lh_work *work, lh_stream *stream)
{
    free_parts(work->at, LH_WORK_PARTS, stream);
    memset(work, 0, sizeof *work);
}

void lh_row_space_free(lh_row_space *space, lh_stream *stream)
{
    free_parts(space->at, LH_ROWS_PARTS, stream);
    memset(space, 0, sizeof *space);
}

static int64_t sum(const int64_t *bytes, int parts)
{
    int64_t all = 0;
    for (int i = 0; i < parts; i++) all += bytes[i];
    return all;
}

int64_t lh_row_space_size(lh_row_space *space, const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t tokens)
{
    const lh_heads *h = &shape->heads;
    const int64_t f32 = sizeof(float), i32 = sizeof(int32_t);
    int64_t *bytes = space->bytes, grouped = h->kv_count * h->group, q_heads = h->split ? h->heads : h->q_count;
    memset(space, 0, sizeof *space);
    if (fixed->score.source == LH_SCORE_EXPECTED) {
        int64_t dim = shape->head_dim, f64 = sizeof(double);
        bytes[LH_ROWS_Q] = LH_ROWS_AT_ONCE * h->q_count * dim * f32;
        bytes[LH_ROWS_TURN] = dim * f32;
        bytes[LH_ROWS_SUMS] = q_heads * dim * f64;
        bytes[LH_ROWS_PRODUCTS] = q_heads * dim * dim * f64;
        bytes[LH_ROWS_MEANS] = grouped * dim * f32;
        bytes[LH_ROWS_COVARIANCES] = grouped * dim * dim * f32;
        return sum(bytes, LH_ROWS_PARTS);
    }
    int64_t cap = fixed->score.running ? LH_ROWS_AT_ONCE : tokens ? lh_min_i64(fixed->rows, tokens) : fixed->rows;
    space->cap = cap;
    if (h->split || !fixed->score.running) { /* counted at once, rows stay where they are */
        bytes[LH_ROWS_Q] = cap * q_heads * shape->head_dim * f32;
        bytes[LH_ROWS_LSE] = cap * q_heads * f32;
    }
    if (h->split) bytes[LH_ROWS_GROUP_Q] = cap * grouped * shape->head_dim * f32;
    /* rows of a ring, and those with a gain or that are not causal, get a normaliser of their own */
    if (h->split || fixed->score.gain || fixed->score.non_causal || lh_kv_observes_again(fixed))
        bytes[LH_ROWS_GROUP_LSE] = cap * grouped * f32;
    if (!fixed->score.running) bytes[LH_ROWS_AT] = cap * i32;
    if (fixed->score.non_causal) bytes[LH_ROWS_UNTIL] = cap * i32;
    if (fixed->score.gain) bytes[LH_ROWS_GAINS] = cap * f32;
    return sum(bytes, LH_ROWS_PARTS);
}

/* Floats that all ranks together exchange of the KV heads that several of them hold, `floats` a column. */
static int64_t pieces_count(const lh_heads *heads, int64_t floats, int64_t ld)
{
    int64_t shared = 0;
    for (int64_t g = 0; g < heads->kv_heads; g++) {
        int first, sharers;
        lh_heads_sharers(heads, g, &first, &sharers);
        shared += sharers > 1;
    }
    return shared * floats * ld;
}

/* What attention scores need, beside the scores themselves. */
static void size_attention(lh_work *work, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                           const lh_work_request *need)
{
    const lh_heads *h = &shape->heads;
    const int64_t f32 = sizeof(float);
    int64_t parts = lh_kv_parts(shape, fixed), row = h->kv_count * need->ld * f32, *bytes = work->bytes;
    lh_stat_layout layout = lh_kv_stat_layout(shape, fixed);
    int again = !fixed->score.running, squares = again && fixed->select.kind == LH_SELECT_STD_SCOPE;
    if (squares) bytes[LH_WORK_SQUARES] = row;
    if (fixed->score.value_prior) bytes[LH_WORK_PRIOR] = 2 * row;
    if (fixed->select.kind == LH_SELECT_TWO_STAGE) {
        int64_t q_heads = h->split ? h->heads : h->q_count;
        bytes[LH_WORK_NORMS] = (q_heads + h->kv_count) * need->ld * f32;
    }
    if (need->steps && !h->split) bytes[LH_WORK_LOGITS] = h->group * row;
    int64_t floats = again ? parts + squares : layout.count;
    if (h->split && (again || need->counted)) bytes[LH_WORK_PIECES] = pieces_count(h, floats, need->ld) * f32;
}

/* The search for the best entries of all heads. */
static void size_search(lh_work *work, const lh_kv_shape *shape, const lh_policy_numbers *fixed)
{
    const lh_heads *h = &shape->heads;
    const int64_t i32 = sizeof(int32_t), i64 = sizeof(int64_t);
    int over = fixed->budgets.layers == LH_LAYERS_ADAPTIVE;
    int64_t sheets = over ? shape->layers : 1, *bytes = work->bytes;
    bytes[LH_WORK_BINS] = h->counted_count * sheets * LH_SUMMARY_BINS * i32;
    bytes[LH_WORK_SUMS] = (LH_SUMMARY_BINS + 1) * i32;
    bytes[LH_WORK_SEARCH] = LH_SHARE_ROUNDS * (int64_t)sizeof(lh_search);
    bytes[LH_WORK_TALLIES] = h->kv_heads * sheets * (int64_t)sizeof(lh_tally);
    if (over) bytes[LH_WORK_GRANTS] = sheets * (int64_t)sizeof(lh_grant);
    bytes[LH_WORK_BUDGETS] = h->kv_heads * sheets * i64;
}

int64_t lh_work_size(lh_work *work, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                     const lh_work_request *need)
{
    const lh_heads *h = &shape->heads;
    const int64_t f32 = sizeof(float), i64 = sizeof(int64_t);
    int64_t *bytes = work->bytes, row = h->kv_count * need->ld * f32;
    memset(work, 0, sizeof *work);
    work->ld = need->ld;
    bytes[LH_WORK_STATE] = h->kv_count * need->ld;
    bytes[LH_WORK_COUNTS] = 3 * h->kv_count * i64;
    int attends = fixed->score.source == LH_SCORE_ATTENTION && (need->scored || need->counted);
    if (need->ranked) {
        bytes[LH_WORK_RAW] = lh_kv_parts(shape, fixed) * row;
        if (fixed->shape.pool != LH_POOL_NONE) bytes[LH_WORK_SHAPED] = lh_kv_parts(shape, fixed) * row;
        if (fixed->select.kind != LH_SELECT_TOPK || fixed->score.source == LH_SCORE_EXPECTED)
            bytes[LH_WORK_SECOND] = row;
        if (fixed->select.joint) bytes[LH_WORK_JOINT] = (need->ld + 1) * i64;
        if (fixed->budgets.heads == LH_HEADS_ADAPTIVE) size_search(work, shape, fixed);
    }
    if (attends) size_attention(work, shape, fixed, need);
    return sum(bytes, LH_WORK_PARTS);
}

void lh_kv_add_need(lh_work_request *need, const lh_kv_shape *shape, const lh_policy_numbers *fixed,
                    const lh_layer_plan *layer)
{
    need->ranked |= layer->ranked;
    need->scored |= layer->scored;
    need->counted |= shape->heads.split && lh_kv_counts(fixed, layer);
}

lh_work_request lh_kv_decode_work(const lh_policy_numbers *fixed, int64_t ld)
{
    int evicts = lh_kv_evicts_again(fixed);
    return (lh_work_request){
        .ld = ld, .ranked = evicts, .scored = evicts && fixed->score.source != LH_SCORE_POSITION, .steps = evicts};
}
