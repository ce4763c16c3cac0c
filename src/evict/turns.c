#include "evict/turns.h"

/* LH_SPACE_TURNS: the order of entries of every head, how many there are, and a line of what ranks are worth. */
typedef struct turn_room {
    int64_t *counts; /* [kv_count] */
    float *line;     /* [2] ranks and [2] what they are worth */
    int32_t *order;  /* [kv_count, ld] */
} turn_room;

static const int64_t LINE_BYTES = 4 * sizeof(float);

static int64_t count_bytes(int64_t heads)
{
    return heads * (int64_t)sizeof(int64_t);
}

void lh_turn_space(const lh_space_request *request, int64_t *bytes)
{
    const int64_t heads = request->shape->heads.kv_count, slots = heads * request->need.ld;
    bytes[LH_SPACE_SECOND] = 2 * slots * (int64_t)sizeof(float);
    bytes[LH_SPACE_TURNS] = count_bytes(heads) + LINE_BYTES + slots * (int64_t)sizeof(int32_t);
}

static turn_room room_of(const lh_evictor *ev)
{
    char *at = ev->at[LH_SPACE_TURNS], *line = at + count_bytes(ev->shape.heads.kv_count);
    return (turn_room){.counts = (int64_t *)at, .line = (float *)line, .order = (int32_t *)(line + LINE_BYTES)};
}

static void order(const lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    const turn_room r = room_of(ev);
    LH_RUN(&ev->exec, order_entries, .order = r.order, .counts = r.counts, .scores = scores,
           .state = ev->at[LH_SPACE_STATE], .kv = job->entries, .ld = ev->ld, .of = LH_ENTRY_COMPETES);
}

/* What entries are worth by their rank in the order, which takes `share` of the turns. raise: where it is more. */
static void rank(const lh_evictor *ev, float *worth, double share, int raise)
{
    const turn_room r = room_of(ev);
    const double least = 1e-9, one = -1 / (share > least ? share : least);
    const float line[] = {0, (float)ev->ld, (float)one, (float)(one * (double)(ev->ld + 1))};
    lh_exec_put(&ev->exec, r.line, line, sizeof line);
    LH_RUN(&ev->exec, rank_scores, .y = worth, .order = r.order, .counts = r.counts, .ranks = r.line,
           .values = r.line + 2, .heads = ev->shape.heads.kv_count, .ld = ev->ld, .points = 2, .values_ld = 0,
           .raise = raise);
}

/* Scores of the keys. */
static const float *score_keys(lh_evictor *ev, const lh_evict_job *job)
{
    float *keys = ev->at[LH_SPACE_SECOND], *pooled = keys + ev->shape.heads.kv_count * ev->ld;
    LH_RUN(&ev->exec, key_difference, .y = keys, .kv = job->entries, .ld = ev->ld);
    if (ev->policy.shape.pool == LH_POOL_NONE) return keys;
    lh_pool_entries(
        ev, job,
        &(lh_pool_args){
            .y = pooled, .x = keys, .rows_per_head = 1, .k = ev->policy.shape.pool_size, .kind = LH_POOL_AVG});
    return pooled;
}

void lh_take_turns_with_keys(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const double share = lh_decimal_value(ev->policy.select.key_share);
    const float *keys = score_keys(ev, job);
    order(ev, job, scores);
    rank(ev, scores, 1 - share, 0);
    order(ev, job, keys);
    rank(ev, scores, share, 1);
}
