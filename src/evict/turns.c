#include "evict/turns.h"

#include "evict/kept_rows.h"
#include "evict/turn_room.h"

static void order_competing(const lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    const lh_turn_room r = lh_turn_room_of(ev);
    LH_RUN(&ev->exec, order_entries, .order = r.order, .counts = r.counts, .scores = scores,
           .state = ev->at[LH_SPACE_STATE], .kv = job->entries, .ld = ev->ld, .of = LH_ENTRY_COMPETES);
}

/* What entries are worth by their rank in the order, which takes `share` of the turns. raise: where it is more. */
static void value_ranks(const lh_evictor *ev, float *worth, double share, int raise)
{
    const lh_turn_room r = lh_turn_room_of(ev);
    const double least = 1e-9, one = -1 / (share > least ? share : least);
    const float line[] = {0, (float)ev->ld, (float)one, (float)(one * (double)(ev->ld + 1))};
    lh_exec_put(&ev->exec, r.line, line, sizeof line);
    LH_RUN(&ev->exec, rank_scores, .y = worth, .order = r.order, .counts = r.counts, .ranks = r.line,
           .values = r.line + 2, .heads = ev->shape.heads.kv_count, .ld = ev->ld, .points = 2, .values_ld = 0,
           .raise = raise);
}

/* LH_SPACE_SECOND holds scores, and their means over the pool. */
static const float *smooth(lh_evictor *ev, const lh_evict_job *job)
{
    float *scores = ev->at[LH_SPACE_SECOND], *pooled = scores + ev->shape.heads.kv_count * ev->ld;
    if (ev->policy.shape.pool == LH_POOL_NONE) return scores;
    lh_pool_entries(
        ev, job,
        &(lh_pool_args){
            .y = pooled, .x = scores, .rows_per_head = 1, .k = ev->policy.shape.pool_size, .kind = LH_POOL_AVG});
    return pooled;
}

static const float *score_keys(lh_evictor *ev, const lh_evict_job *job)
{
    LH_RUN(&ev->exec, key_difference, .y = ev->at[LH_SPACE_SECOND], .kv = job->entries, .ld = ev->ld);
    return smooth(ev, job);
}

/* By the squares of the weights that references give. */
static const float *score_references(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_row_block rows = lh_reference_rows(ev, job);
    lh_exec_zero(&ev->exec, ev->at[LH_SPACE_SECOND], ev->bytes[LH_SPACE_SECOND]);
    lh_count_columns(
        ev, job, &rows,
        &(lh_columns){.squares = lh_slot_rows(ev->at[LH_SPACE_SECOND], 1, ev->ld), .parts = 1, .each_head = 1});
    return smooth(ev, job);
}

void lh_take_turns(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const double rows = lh_decimal_value(ev->policy.select.row_share), rest = 1 - rows,
                 keys = rest * lh_decimal_value(ev->policy.select.key_share);
    const float *second = score_keys(ev, job);
    order_competing(ev, job, scores);
    value_ranks(ev, scores, rest - keys, 0);
    order_competing(ev, job, second);
    value_ranks(ev, scores, keys, 1);
    if (rows > 0) {
        order_competing(ev, job, score_references(ev, job));
        value_ranks(ev, scores, rows, 1);
    }
}
