/* Attention that some rows give: those of a window, proxies, the last row (SnapKV and what builds on it), or rows
 * spread over the prompt. In prefill they are kept as they pass (kept_rows.h) and observed at the end of the layer;
 * while decoding the caller keeps the last rows in a ring and hands them over, and each eviction observes them again
 * over the entries that are held. */
#include "evict/attention.h"
#include "evict/kept_rows.h"

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
}

/* ---- scores ---- */

/* Where observed rows are counted; and where they were before. */
static lh_columns observed(const lh_evictor *ev)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    lh_slot_floats raw = lh_slot_rows(ev->at[LH_SPACE_RAW], parts, ev->ld), none = {0};
    int counts = ev->policy.score.statistic == LH_STAT_COUNT;
    if (ev->policy.score.statistic == LH_STAT_RMS) return (lh_columns){.squares = raw, .parts = 1, .each_head = 1};
    if (ev->policy.score.statistic == LH_STAT_MAX) return (lh_columns){.largest = raw, .parts = 1, .each_head = 1};
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
    lh_row_block b = lh_scoring_rows(ev, job);
    ev->scoring = b;
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

const lh_source lh_source_window = {.parts = lh_attention_parts, .space = space, .score = score};
