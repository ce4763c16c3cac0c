#include "evict/turns.h"

#include "evict/kept_rows.h"

/* The entries of every head in the order of a score, on the scratch stack. */
typedef struct ranking {
    int64_t *counts; /* [kv_count] */
    int32_t *order;  /* [kv_count, ld] slots */
} ranking;

static ranking order_competing(const lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    const lh_exec *x = &ev->exec;
    const int64_t heads = ev->shape.heads.kv_count;
    ranking r = {.counts = lh_scratch_alloc(x, heads * (int64_t)sizeof *r.counts),
                 .order = lh_scratch_alloc(x, heads * ev->ld * (int64_t)sizeof *r.order)};
    LH_RUN(x, order_entries, .order = r.order, .counts = r.counts, .scores = scores, .state = lh_layer_state(ev),
           .kv = job->entries, .ld = ev->ld, .of = LH_ENTRY_COMPETES);
    return r;
}

/* A score that takes a share of the turns. raise: 1: where its ranks are worth more. */
typedef struct turn {
    const float *by;
    double share;
    int raise;
} turn;

/* worth = what entries are worth by their rank in the order of the turn's score. */
static void value_ranks(const lh_evictor *ev, const lh_evict_job *job, turn t, float *worth)
{
    const lh_exec *x = &ev->exec;
    const int64_t mark = lh_scratch_mark(x);
    const ranking r = order_competing(ev, job, t.by);
    const double least = 1e-9, one = -1 / (t.share > least ? t.share : least);
    const float line[] = {0, (float)ev->ld, (float)one, (float)(one * (double)(ev->ld + 1))};
    float *ends = lh_scratch_floats(ev, 4); /* of the line: two ranks, and what they are worth */
    lh_exec_put(x, ends, line, sizeof line);
    LH_RUN(x, rank_scores, .y = worth, .order = r.order, .counts = r.counts, .ranks = ends, .values = ends + 2,
           .heads = ev->shape.heads.kv_count, .ld = ev->ld, .points = 2, .values_ld = 0, .raise = t.raise);
    lh_scratch_release(x, mark);
}

/* Means of scores over the pool, on the scratch stack. */
static const float *smooth(lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    if (ev->policy.shape.pool == LH_POOL_NONE) return scores;
    float *pooled = lh_scratch_floats(ev, ev->shape.heads.kv_count * ev->ld);
    lh_pool_entries(
        ev, job,
        &(lh_pool_args){
            .y = pooled, .x = scores, .rows_per_head = 1, .k = ev->policy.shape.pool_size, .kind = LH_POOL_AVG});
    return pooled;
}

/* The squares of the weights that references give. */
static void count_references(lh_evictor *ev, const lh_evict_job *job, float *squares)
{
    const lh_row_block rows = lh_reference_rows(ev, job);
    lh_exec_zero(&ev->exec, squares, ev->shape.heads.kv_count * ev->ld * (int64_t)sizeof *squares);
    lh_count_columns(ev, job, &rows,
                     &(lh_columns){.squares = lh_slot_rows(squares, 1, ev->ld), .parts = 1, .each_head = 1});
}

void lh_take_turns(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const double rows = lh_decimal_value(ev->policy.select.row_share), rest = 1 - rows,
                 keys = rest * lh_decimal_value(ev->policy.select.key_share);
    float *second = lh_scratch_floats(ev, ev->shape.heads.kv_count * ev->ld);
    LH_RUN(&ev->exec, key_difference, .y = second, .kv = job->entries, .ld = ev->ld);
    const float *pooled = smooth(ev, job, second);
    value_ranks(ev, job, (turn){scores, rest - keys, 0}, scores);
    value_ranks(ev, job, (turn){pooled, keys, 1}, scores);
    if (rows > 0) {
        count_references(ev, job, second);
        value_ranks(ev, job, (turn){smooth(ev, job, second), rows, 1}, scores);
    }
}
