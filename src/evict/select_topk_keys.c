/* Entries that are chosen by several scores in turn ('--select topk+keys'). The scores become ranks: the i-th best
 * entry of a head by a score with a share of the turns is worth -i / share, and each entry the most that one score
 * makes of it. The second score is '--statistic key-difference' (KeyDiff, arXiv 2504.15364); with '--row-share'
 * the third are the squares of the weights that the reference queries and all query heads of the group give.
 * Both are means over the pool of the policy if it has one. */
#include "evict/evict_impl.h"

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
    float *ends = lh_scratch_floats(ev, 4); /* of the line: two ranks and their values */
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

typedef struct turn_params {
    lh_decimal keys, rows; /* shares */
} turn_params;

static void stages(lh_evictor *ev, const lh_evict_job *job, lh_stage_scores *by)
{
    const turn_params *p = lh_params_of(&ev->policy.methods, LH_METHOD_topk_keys);
    const double rows = lh_decimal_value(p->rows), rest = 1 - rows, keys = rest * lh_decimal_value(p->keys);
    float *scores = lh_layer_scores(ev, by->first);
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

/* ---- the method ---- */

static int refers(const lh_policy *policy)
{
    return policy->select.kind == LH_METHOD_topk_keys && lh_uses_method(&policy->methods, LH_METHOD_losses);
}

static lh_status check(const lh_policy *policy)
{
    if (lh_policy_has(policy, LH_BY_POSITION) || policy->score.source == LH_METHOD_key_difference)
        LH_FAIL(LH_EUSAGE, "'--select topk+keys' takes some entries by their keys and the others by their scores: give "
                           "a statistic other than position and key-difference");
    return LH_OK;
}

static const lh_part parts[] = {
    {LH_PART_SHARE(topk_keys, turn_params, keys), .def = "0.5", .row.name = "key-share", .row.arg = "X",
     .row.help = "Share that topk+keys chooses by keys."},
    {LH_PART_SHARE(topk_keys, turn_params, rows), .used = refers,
     .needs = "'--select topk+keys' and '--compete-by losses', which observes such rows", .def = "0",
     .row.name = "row-share", .row.arg = "X",
     .row.help = "Share that topk+keys chooses by the attention of rows after the prompt; scores and keys share the "
                 "rest."},
    {.row.name = NULL}};

static const lh_selection selection = {.stages = stages};

const lh_method lh_method_topk_keys = {
    .word = "topk+keys",
    .help = "By turns the best scores and the keys that differ most from the mean key of their head.",
    .parts = parts,
    .traits = LH_SAME_RANKS | LH_EACH_HEAD | LH_NEEDS_ENTRIES,
    .check = check,
    .selection = &selection};
