/* Query rows before they are counted: rows of shared KV heads are gathered from the ranks that have them, and rows with
 * a gain, or that see later entries, get new normalisers. */
#include "evict/evict_impl.h"

int32_t *lh_put_row_positions(lh_evictor *ev, lh_row_position *of, int64_t seen, int64_t n)
{
    const int64_t bytes = n * (int64_t)sizeof(int32_t);
    int32_t *positions = NULL, *at = lh_scratch_alloc(&ev->exec, bytes);
    lh_exec_latch(&ev->exec, lh_calloc(&positions, n, sizeof *positions));
    for (int64_t r = 0; r < n && positions; r++) positions[r] = (int32_t)of(&ev->policy, seen, r);
    lh_exec_put(&ev->exec, at, positions, bytes);
    lh_free(positions);
    return at;
}

/* ---- new normalisers ---- */

/* True if normalisers are also needed outside the counted columns. */
static int wants_normalisers(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_REFERENCES | LH_NORMALISERS);
}

void lh_find_normalisers(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, float *lse)
{
    const lh_heads *h = &ev->shape.heads;
    LH_RUN(&ev->exec, row_lse, .lse = lse,
           .rows = {.q = b->rows.q,
                    .positions = b->rows.positions,
                    .until = b->until,
                    .gains = b->gains,
                    .kv = job->entries,
                    .map = {.heads = h->kv_count * h->group, .group = h->group},
                    .logit = lh_logit_of(ev, job),
                    .rows = b->rows.tokens,
                    .q_ld = b->rows.q_ld});
}

/* The counting operation computes the normaliser of a single row, unless it is needed elsewhere. */
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
    if (!is_single) lh_find_normalisers(ev, job, b, lse);
}

lh_query_rows lh_rows_from(const lh_evictor *ev, const lh_query_rows *rows, int64_t at)
{
    lh_query_rows slice = *rows;
    slice.q += at * rows->q_ld;
    if (rows->lse) slice.lse += at * ev->shape.heads.q_count;
    if (rows->hidden)
        slice.hidden = (const char *)rows->hidden + at * ev->shape.hidden * lh_dtype_bytes(rows->hidden_type);
    slice.positions += at;
    slice.first += at;
    slice.tokens = lh_min_i64(rows->tokens - at, LH_ROWS_AT_ONCE);
    return slice;
}

lh_row_block lh_join_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own)
{
    int is_new = !own->lse || lh_methods_have(&ev->policy.methods, LH_ALTERS_ROWS);
    lh_row_block b = {.rows = *own, .lse_ld = ev->shape.heads.q_count};
    if (is_new) b.rows.lse = NULL;
    if (ev->shape.heads.split) {
        lh_query_rows given = b.rows;
        lh_gather_groups(ev, &given, &b);
    }
    if (is_new) normalise(ev, job, &b);
    return b;
}
