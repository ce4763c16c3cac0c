/* Attention that the rows of a window (or proxies, or the last row) give: SnapKV and what builds on it. In prefill
 * these rows are kept as they pass and observed at the end of the layer; while decoding the caller keeps the last rows
 * in a ring and hands them over, and each eviction observes them again over the entries that are held. */
#include <assert.h>

#include "evict/attention.h"

static void space(const lh_space_request *request, int64_t *bytes)
{
    const lh_policy_numbers *p = request->policy;
    const lh_heads *h = &request->shape->heads;
    int64_t row = h->kv_count * request->need.ld * (int64_t)sizeof(float);
    int squares = p->select.kind == LH_SELECT_STD_SCOPE;
    if (request->need.scored) {
        if (squares) bytes[LH_SPACE_SQUARES] = row;
        if (request->steps && !h->split) bytes[LH_SPACE_LOGITS] = h->group * row;
        if (h->split)
            bytes[LH_SPACE_COLUMNS] = lh_exchanged_bytes(h, lh_attention_parts(p, h) + squares, request->need.ld);
    }
    lh_attention_row_space(request, request->tokens ? lh_min_i64(p->rows, request->tokens) : p->rows, 0, bytes);
}

static int uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored)
{
    (void)policy;
    return scored && phase == LH_EVICT_PREFILL;
}

/* ---- rows that are kept ---- */

/* Rows at positions [first, end) of the prompt, from row `to` of the kept ones on. */
typedef struct stretch {
    int64_t first, end, to;
} stretch;

/* Those of them that are among `rows`. */
static void keep(lh_evictor *ev, const lh_query_rows *rows, stretch s)
{
    int64_t q_count = ev->shape.heads.q_count, width = q_count * ev->shape.head_dim;
    int64_t kept = lh_policy_rows(&ev->policy, ev->prompt_tokens);
    int64_t skip = lh_max_i64(s.first - rows->first, 0), end = lh_min_i64(s.end - rows->first, rows->tokens);
    int64_t row = s.to + rows->first + skip - s.first, count = end - skip;
    if (count <= 0) return;
    assert(row + count <= kept);
    float *q = lh_own_q(ev, kept) + row * width, *lse = lh_own_lse(ev, kept) + row * q_count;
    int dense = rows->q_ld == width;
    for (int64_t r = 0; r < (dense ? 1 : count); r++)
        lh_exec_copy(&ev->exec, q + r * width, rows->q + (skip + r) * rows->q_ld,
                     (dense ? count : 1) * width * (int64_t)sizeof *q, LH_COPY_ON_DEVICE);
    lh_exec_copy(&ev->exec, lse, rows->lse + skip * q_count, count * q_count * (int64_t)sizeof *lse, LH_COPY_ON_DEVICE);
}

/* The first rows of the prompt, where they are observed, and the last. */
static void keep_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    int64_t tokens = ev->prompt_tokens, first = ev->policy.first_rows;
    (void)job;
    keep(ev, rows, (stretch){.end = first});
    keep(ev, rows, (stretch){tokens - lh_policy_rows(&ev->policy, tokens) + first, tokens, first});
}

static lh_query_rows kept_rows(lh_evictor *ev, const lh_evict_job *job)
{
    lh_row_room room = lh_evict_row_room(ev, job->seen);
    return (lh_query_rows){.q = room.q,
                           .lse = room.lse,
                           .positions = room.positions,
                           .first = job->seen - room.rows,
                           .tokens = room.rows,
                           .first_rows = ev->policy.first_rows,
                           .q_ld = ev->shape.heads.q_count * ev->shape.head_dim};
}

/* ---- scores ---- */

/* Where observed rows are counted; and where they were before. */
static lh_columns observed(const lh_evictor *ev)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    lh_slot_floats raw = lh_slot_rows(ev->at[LH_SPACE_RAW], parts, ev->ld), none = {0};
    int counts = ev->policy.score.statistic == LH_STAT_COUNT;
    return (lh_columns){.sums = counts ? none : raw,
                        .squares = lh_slot_rows(ev->at[LH_SPACE_SQUARES], 1, ev->ld),
                        .counts = counts ? raw : none,
                        .parts = parts};
}

static lh_columns counted_before(const lh_evictor *ev, const lh_counted_rows *counted)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    return (lh_columns){.sums = lh_slot_rows(counted->sums, parts, counted->ld), .parts = parts};
}

static void observe(lh_evictor *ev, const lh_evict_job *job, const lh_columns *to)
{
    int split = ev->shape.heads.split;
    lh_query_rows own = job->rows ? *job->rows : kept_rows(ev, job);
    if (!job->rows) lh_check_rows(ev, job, &own);
    lh_row_block b = lh_join_rows(ev, job, &own);
    lh_exec_zero(&ev->exec, ev->at[LH_SPACE_RAW], ev->bytes[LH_SPACE_RAW]);
    lh_exec_zero(&ev->exec, ev->at[LH_SPACE_SQUARES], ev->bytes[LH_SPACE_SQUARES]);
    (split ? lh_count_shares : lh_count_columns)(ev, job, &b, to);
    if (split) lh_exchange_columns(ev, job);
}

static void score(lh_evictor *ev, const lh_evict_job *job)
{
    lh_columns columns = job->counted ? counted_before(ev, job->counted) : observed(ev);
    if (!job->counted) observe(ev, job, &columns);
    lh_finish_statistics(ev, job, &columns, job->seen - lh_policy_rows(&ev->policy, job->seen) + ev->policy.first_rows);
}

const lh_source lh_source_window = {
    .parts = lh_attention_parts, .space = space, .uses_rows = uses_rows, .rows = keep_rows, .score = score};
