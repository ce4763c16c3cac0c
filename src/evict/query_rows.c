/* Query rows on their way to the columns: those of shared KV heads are put together from the ranks that have them, and
 * rows with a gain, or that see what comes after them, get a normaliser of their own. */
#include <math.h>

#include "evict/evict_impl.h"

/* ---- normalisers of their own ---- */

float lh_step_gain(int64_t seen, int64_t kept)
{
    return seen > kept ? (float)sqrt(2.0 * log((double)seen / (double)kept)) : 1.0f;
}

static float gain_of(const lh_policy_numbers *p, int64_t seen)
{
    float gain = lh_step_gain(seen, p->budget);
    return p->score.gain_floor && gain < 1.0f ? 1.0f : gain;
}

/* The last position that rows see, where they are not causal, and their gains. */
static void put_until(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b)
{
    const lh_exec *x = &ev->exec;
    int64_t rows = b->rows.tokens;
    int32_t *until = NULL;
    if (!ev->policy.score.non_causal) return;
    lh_exec_latch(x, lh_calloc(&until, rows, sizeof *until));
    for (int64_t r = 0; r < rows && until; r++) until[r] = (int32_t)(job->seen - 1);
    int32_t *at = lh_scratch_alloc(x, rows * (int64_t)sizeof *until);
    lh_exec_put(x, at, until, rows * (int64_t)sizeof *until);
    b->until = at;
    lh_free(until);
}

static void put_gains(lh_evictor *ev, lh_row_block *b)
{
    const lh_exec *x = &ev->exec;
    int64_t rows = b->rows.tokens;
    float *gains = NULL;
    if (!ev->policy.score.gain) return;
    lh_exec_latch(x, lh_calloc(&gains, rows, sizeof *gains));
    for (int64_t r = 0; r < rows && gains; r++)
        gains[r] = gain_of(&ev->policy, (r < b->rows.first_rows ? r : b->rows.first + r) + 1);
    float *at = lh_scratch_floats(ev, rows);
    lh_exec_put(x, at, gains, rows * (int64_t)sizeof *gains);
    b->gains = at;
    lh_free(gains);
}

/* Whether they are wanted beside the columns that are counted. */
static int wants_normalisers(const lh_policy_numbers *p)
{
    return lh_has_references(&p->fitting, &p->budgets) || p->score.statistic == LH_STAT_OUTPUT_ERROR;
}

/* A single row's is worked out where it is counted, unless it is wanted elsewhere. */
static void normalise(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t grouped = h->kv_count * h->group;
    float *lse = lh_scratch_floats(ev, b->rows.tokens * grouped);
    put_until(ev, job, b);
    put_gains(ev, b);
    b->lse_ld = grouped;
    const int is_single = b->rows.tokens == 1 && !wants_normalisers(&ev->policy);
    b->own = is_single ? lse : NULL;
    b->rows.lse = is_single ? NULL : lse;
    if (is_single) return;
    LH_RUN(&ev->exec, row_lse, .lse = lse,
           .rows = {.q = b->rows.q,
                    .positions = b->rows.positions,
                    .until = b->until,
                    .gains = b->gains,
                    .kv = job->entries,
                    .map = {.heads = grouped, .group = h->group},
                    .logit = lh_logit_of(ev, job),
                    .rows = b->rows.tokens,
                    .q_ld = b->rows.q_ld});
}

lh_row_block lh_join_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own)
{
    int of_their_own = !own->lse || ev->policy.score.gain || ev->policy.score.non_causal;
    lh_row_block b = {.rows = *own, .lse_ld = ev->shape.heads.q_count};
    if (of_their_own) b.rows.lse = NULL;
    if (ev->shape.heads.split) {
        lh_query_rows given = b.rows;
        lh_gather_groups(ev, &given, &b);
    }
    if (of_their_own) normalise(ev, job, &b);
    return b;
}
