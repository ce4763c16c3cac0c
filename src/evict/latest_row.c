#include "evict/latest_row.h"

#include "evict/evict_impl.h"

/* Gains, later rows, counts and deviations need more than the logits of the row: they are left to the ring. */
int lh_latest_row_counts(const lh_policy_numbers *p, const lh_heads *heads)
{
    int plain = !p->score.gain && !p->score.non_causal && p->score.statistic != LH_STAT_COUNT &&
                p->select.kind != LH_SELECT_STD_SCOPE;
    return plain && p->every > 0 && lh_observes_again(p) && !p->score.running && p->rows == 1 && !heads->split;
}

static int64_t sums_bytes(const lh_evictor *ev, int64_t ld)
{
    const lh_heads *h = &ev->shape.heads;
    return h->kv_count * lh_score_parts(&ev->policy, h) * ld * (int64_t)sizeof(float);
}

void lh_latest_row_free(lh_latest_row *latest, lh_device *device)
{
    lh_device_free(device, latest->sums);
    *latest = (lh_latest_row){.position = -1};
}

int lh_latest_row_reserve(lh_latest_row *latest, lh_evictor *ev)
{
    const lh_exec *x = &ev->exec;
    int64_t bytes = sums_bytes(ev, ev->ld);
    if (latest->ld >= ev->ld || !lh_exec_ok(x)) return 0;
    lh_latest_row_free(latest, lh_exec_device(x));
    lh_exec_latch(x, lh_device_alloc(lh_exec_device(x), &latest->sums, bytes, LH_MEM_WORK));
    if (lh_exec_ok(x)) latest->ld = ev->ld;
    return 1;
}

void lh_latest_row_count(lh_latest_row *latest, lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *row)
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads);
    lh_columns to = {.sums = lh_slot_rows(latest->sums, parts, latest->ld), .parts = parts};
    lh_row_block b = {.rows = *row, .lse_ld = ev->shape.heads.q_count};
    lh_exec_zero(&ev->exec, latest->sums, sums_bytes(ev, latest->ld));
    lh_count_columns(ev, job, &b, &to);
    latest->position = row->first;
}
