/* Query rows on their way to the columns: those of shared KV heads are put together from the ranks that have them, and
 * rows with a gain, or that see what comes after them, get a normaliser of their own. */
#include "evict/evict_impl.h"

/* ---- normalisers of their own ---- */

/* Whether they are wanted beside the columns that are counted. */
static int wants_normalisers(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_REFERENCES | LH_NORMALISERS);
}

/* A single row's is worked out where it is counted, unless it is wanted elsewhere. */
static void normalise(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t grouped = h->kv_count * h->group;
    float *lse = lh_scratch_floats(ev, b->rows.tokens * grouped);
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->alter) addition->alter(ev, job, b);
    }
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
    int of_their_own = !own->lse || lh_methods_have(&ev->policy.methods, LH_ALTERS_ROWS);
    lh_row_block b = {.rows = *own, .lse_ld = ev->shape.heads.q_count};
    if (of_their_own) b.rows.lse = NULL;
    if (ev->shape.heads.split) {
        lh_query_rows given = b.rows;
        lh_gather_groups(ev, &given, &b);
    }
    if (of_their_own) normalise(ev, job, &b);
    return b;
}
