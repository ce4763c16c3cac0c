/* Attention that all rows give, or the last of a prompt and all after them: statistics that are kept with the entries,
 * counted as rows pass and going on while decoding (H2O, ScissorHands, MAS, RoCo, AhaKV). */
#include "evict/evict_impl.h"

static void stats(const lh_policy_numbers *p, lh_entry_stats *s)
{
    const int counts = lh_methods[p->score.source]->statistic->column == LH_COLUMN_COUNTS;
    if (counts || p->records) s->counts = s->count++;
    if (!counts) {
        s->sums = s->count;
        s->count += s->parts;
    }
    if (lh_methods_have(&p->methods, LH_NEEDS_SQUARES) || p->records) s->squares = s->count++;
}

static int uses_rows(const lh_policy_numbers *p, lh_evict_phase phase, int scored)
{
    return phase == LH_EVICT_PREFILL ? scored || lh_evicts_again(p) : p->every > 0;
}

static lh_columns carried(const lh_evictor *ev, const lh_ragged *entries)
{
    return (lh_columns){.sums = lh_stat_of(entries, ev->stats.sums),
                        .squares = lh_stat_of(entries, ev->stats.squares),
                        .counts = lh_stat_of(entries, ev->stats.counts),
                        .parts = ev->stats.parts};
}

/* The first row of a prompt that is counted: of the last ones, or of all. */
static int64_t first_counted(const lh_evictor *ev)
{
    return ev->policy.block ? 0 : ev->prompt_tokens - lh_policy_rows(&ev->policy, ev->prompt_tokens);
}

/* Collective where groups are split. A prompt's columns are shared out among the ranks of a KV head, and put together
 * at its end; single rows and blocks are counted by all of them. */
static void count(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own)
{
    int split = ev->shape.heads.split, in_prefill = job->phase == LH_EVICT_PREFILL;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    lh_query_rows rows = *own;
    lh_columns to = carried(ev, job->entries);
    if (split) lh_copy_rows(ev, &rows);
    lh_row_block b = lh_join_rows(ev, job, &rows);
    (split && in_prefill && !ev->policy.block ? lh_count_shares : lh_count_columns)(ev, job, &b, &to);
    lh_scratch_release(&ev->exec, mark);
}

static void count_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    int64_t from = job->phase == LH_EVICT_PREFILL ? first_counted(ev) : 0;
    for (int64_t at = lh_max_i64(from - rows->first, 0); at < rows->tokens; at += LH_ROWS_AT_ONCE) {
        const lh_query_rows slice = lh_rows_from(ev, rows, at);
        count(ev, job, &slice);
    }
}

static void end(lh_evictor *ev, const lh_evict_job *job)
{
    if (ev->shape.heads.split && !ev->policy.block) lh_exchange_columns(ev, job, NULL, NULL);
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_columns from = carried(ev, job->entries);
    lh_finish_statistics(ev, job, &from, first_counted(ev), scores);
}

const lh_source lh_source_running = {.parts = lh_attention_parts,
                                     .stats = stats,
                                     .uses_rows = uses_rows,
                                     .rows = count_rows,
                                     .end = end,
                                     .score = score};
