/* Attention that probe tokens give (policies/probes.h): the rows of a segment are counted, as they pass, into the
 * columns of the stretch of the prompt that it repeats. Each column is counted by one segment. */
#include "evict/evict_impl.h"

/* The columns of the whole prompt, of this rank's KV heads. */
static lh_columns columns_of(const lh_evictor *ev)
{
    const lh_statistic *statistic = lh_methods[ev->policy.score.source]->statistic;
    const int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    const lh_slot_floats all = lh_slot_rows(ev->sums, parts, ev->prompt_tokens);
    if (statistic->column == LH_COLUMN_LARGEST) return (lh_columns){.largest = all, .parts = 1, .each_head = 1};
    return (lh_columns){.sums = all, .parts = parts};
}

static int64_t sums_bytes(const lh_evictor *ev)
{
    const lh_heads *h = &ev->shape.heads;
    return h->kv_count * lh_score_parts(&ev->policy, h) * ev->prompt_tokens * (int64_t)sizeof(float);
}

static void begin(lh_evictor *ev, const lh_evict_job *job)
{
    (void)job;
    lh_exec_zero(&ev->exec, ev->sums, sums_bytes(ev));
}

/* The columns of a stretch, by slots of the segment's view. */
static lh_columns columns_at(const lh_evictor *ev, const lh_probe_rows *probes)
{
    lh_columns to = columns_of(ev);
    lh_slot_floats *used = to.largest.at ? &to.largest : &to.sums;
    used->at += probes->first - probes->slot;
    to.first = probes->slot;
    return to;
}

/* Collective where groups are split: every rank counts all columns of its KV heads. */
static void count(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own, const lh_columns *to)
{
    const int64_t mark = lh_scratch_mark(&ev->exec);
    lh_query_rows rows = *own;
    if (ev->shape.heads.split) lh_copy_rows(ev, &rows);
    const lh_row_block b = lh_join_rows(ev, job, &rows);
    lh_count_columns(ev, job, &b, to);
    lh_scratch_release(&ev->exec, mark);
}

static void count_probes(lh_evictor *ev, const lh_evict_job *of, const lh_probe_rows *probes)
{
    const lh_columns to = columns_at(ev, probes);
    lh_evict_job job = *of;
    job.cols = probes->slot + probes->count;
    for (int64_t at = 0; at < probes->queries.tokens; at += LH_ROWS_AT_ONCE) {
        lh_query_rows slice = lh_rows_from(ev, &probes->queries, at);
        if (probes->attends_more) slice.lse = NULL;
        count(ev, &job, &slice, &to);
    }
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_columns from = columns_of(ev);
    lh_finish_statistics(ev, job, &from, 0, scores);
}

const lh_source lh_source_repeat = {
    .parts = lh_attention_parts, .sums_bytes = sums_bytes, .begin = begin, .probes = count_probes, .score = score};
