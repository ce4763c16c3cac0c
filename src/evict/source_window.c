/* Attention that some rows give: the rows of a window, proxies, the last row (SnapKV and what builds on it), or rows
 * spread over the prompt. In prefill they are kept as they pass (kept_rows.c) and observed at the end of the layer;
 * while decoding the caller keeps the last rows in a ring and hands them over, and each eviction observes them again
 * over the entries that are held. */
#include "evict/evict_impl.h"

/* Where observed rows are counted: in scores and, for deviations, squares (NULL: not wanted). */
static lh_columns observed(const lh_evictor *ev, float *scores, float *squares)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    lh_slot_floats raw = lh_slot_rows(scores, parts, ev->ld), none = {0};
    const lh_column_kind column = lh_methods[ev->policy.score.source]->statistic->column;
    int counts = column == LH_COLUMN_COUNTS;
    if (column == LH_COLUMN_SQUARES) return (lh_columns){.squares = raw, .parts = 1, .each_head = 1};
    if (column == LH_COLUMN_LARGEST) return (lh_columns){.largest = raw, .parts = 1, .each_head = 1};
    return (lh_columns){.sums = counts ? none : raw,
                        .squares = lh_slot_rows(squares, 1, ev->ld),
                        .counts = counts ? raw : none,
                        .parts = parts};
}

/* Where they were counted before. */
static lh_columns counted_before(const lh_evictor *ev, const lh_counted_rows *counted)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    return (lh_columns){.sums = lh_slot_rows(counted->sums, parts, counted->ld), .parts = parts};
}

/* Collective where groups are split. */
static lh_columns observe(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const int split = ev->shape.heads.split;
    const int64_t count = ev->shape.heads.kv_count * ev->ld, parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    const int deviates = lh_methods_have(&ev->policy.methods, LH_NEEDS_SQUARES);
    float *squares = deviates ? lh_scratch_floats(ev, count) : NULL;
    const lh_columns to = observed(ev, scores, squares);
    const lh_row_block b = lh_scoring_rows(ev, job);
    ev->scoring = b;
    lh_exec_zero(&ev->exec, scores, parts * count * (int64_t)sizeof *scores);
    if (squares) lh_exec_zero(&ev->exec, squares, count * (int64_t)sizeof *squares);
    (split ? lh_count_shares : lh_count_columns)(ev, job, &b, &to);
    if (split) lh_exchange_columns(ev, job, scores, squares);
    return to;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_columns columns = job->counted ? counted_before(ev, job->counted) : observe(ev, job, scores);
    const int64_t first = job->seen - lh_policy_rows(&ev->policy, job->seen) + ev->policy.first_rows;
    lh_finish_statistics(ev, job, &columns, first, scores);
}

const lh_source lh_source_window = {.parts = lh_attention_parts, .score = score};
