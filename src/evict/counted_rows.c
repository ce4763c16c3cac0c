#include "evict/counted_rows.h"

#include "evict/evict_impl.h"

/* Gains, later rows, rows that are moved, counts, squares, maxima and deviations need more than sums of what attention
 * gave. */
int lh_counted_rows_suffice(const lh_policy_numbers *p)
{
    return lh_evict_uses_attention(p) && !p->score.running && p->score.rows_at == LH_ROWS_AT_OWN &&
           !lh_methods_have(&p->methods, LH_ALTERS_ROWS | LH_JOINT_STATISTIC | LH_NEEDS_SQUARES);
}

int lh_counted_rows_latest(const lh_policy_numbers *p, const lh_heads *heads)
{
    return lh_counted_rows_suffice(p) && p->every > 0 && lh_observes_again(p) && p->rows == 1 && !heads->split;
}

static int64_t sums_bytes(const lh_evictor *ev, int64_t ld)
{
    const lh_heads *h = &ev->shape.heads;
    return h->kv_count * lh_score_parts(&ev->policy, h) * ld * (int64_t)sizeof(float);
}

void lh_counted_rows_free(lh_counted_rows *counted, lh_device *device)
{
    lh_device_free(device, counted->sums);
    *counted = (lh_counted_rows){.position = -1};
}

void lh_counted_rows_reserve(lh_counted_rows *counted, lh_evictor *ev)
{
    const lh_exec *x = &ev->exec;
    int64_t bytes = sums_bytes(ev, ev->ld);
    if (counted->ld >= ev->ld || !lh_exec_ok(x)) return;
    lh_counted_rows_free(counted, lh_exec_device(x));
    lh_exec_latch(x, lh_device_alloc(lh_exec_device(x), &counted->sums, bytes, LH_MEM_WORK));
    if (lh_exec_ok(x)) counted->ld = ev->ld;
}

void lh_counted_rows_take(lh_counted_rows *counted, lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    lh_columns to = {.sums = lh_slot_rows(counted->sums, parts, counted->ld), .parts = parts};
    lh_row_block b = {.rows = *rows, .lse_ld = ev->shape.heads.q_count};
    lh_exec_zero(&ev->exec, counted->sums, sums_bytes(ev, counted->ld));
    lh_count_columns(ev, job, &b, &to);
    counted->position = rows->first + rows->tokens - 1;
}
