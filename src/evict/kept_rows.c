/* Query rows of a layer's prefill: as they pass, the policy's source counts them or sums them up, and rows that are
 * observed later are kept; at the end of the layer the kept rows score, or are reference queries, from their positions
 * or from positions after the prompt. */
#include <assert.h>

#include "evict/evict_impl.h"

/* ---- kept rows ---- */

/* Rows at positions [first, end) of the prompt, from row `to` of the kept ones on. */
typedef struct stretch {
    int64_t first, end, to;
} stretch;

/* Where `rows` of them are kept. lse, hidden NULL: not wanted. */
typedef struct row_store {
    float *q, *lse, *hidden;
    int64_t rows;
} row_store;

static row_store store_of_scoring(const lh_evictor *ev)
{
    const int64_t rows = lh_policy_rows(&ev->policy, ev->prompt_tokens);
    return (row_store){ev->store.q, ev->store.lse, ev->store.hidden, rows};
}

static row_store store_of_references(const lh_evictor *ev)
{
    return (row_store){.q = ev->store.references, .rows = lh_policy_references(&ev->policy, ev->prompt_tokens)};
}

/* Keeps the hidden states of rows s.first to s.end of `rows`. */
static void keep_hidden(lh_evictor *ev, const lh_query_rows *rows, const row_store *to, stretch s)
{
    const int64_t hidden = ev->shape.hidden, at = s.first * hidden * lh_dtype_bytes(rows->hidden_type);
    LH_RUN(&ev->exec, convert, .dst = to->hidden + s.to * hidden, .src = (const char *)rows->hidden + at,
           .dst_type = LH_F32, .src_type = rows->hidden_type, .rows = s.end - s.first, .cols = hidden, .dst_ld = hidden,
           .src_ld = hidden);
}

/* Keeps the rows of the range that are among `rows`. */
static void keep(lh_evictor *ev, const lh_query_rows *rows, const row_store *to, stretch s)
{
    int64_t q_count = ev->shape.heads.q_count, width = q_count * ev->shape.head_dim;
    int64_t skip = lh_max_i64(s.first - rows->first, 0), end = lh_min_i64(s.end - rows->first, rows->tokens);
    int64_t row = s.to + rows->first + skip - s.first, count = end - skip;
    if (count <= 0) return;
    assert(row + count <= to->rows);
    LH_RUN(&ev->exec, convert, .dst = to->q + row * width, .src = rows->q + skip * rows->q_ld, .dst_type = LH_F32,
           .src_type = LH_F32, .rows = count, .cols = width, .dst_ld = width, .src_ld = rows->q_ld);
    if (to->hidden) keep_hidden(ev, rows, to, (stretch){skip, end, row});
    if (!to->lse) return;
    lh_exec_copy(&ev->exec, to->lse + row * q_count, rows->lse + skip * q_count,
                 count * q_count * (int64_t)sizeof *to->lse, LH_COPY_ON_DEVICE);
}

static void keep_spread(lh_evictor *ev, const lh_query_rows *rows, const row_store *to)
{
    for (int64_t r = 0; r < to->rows; r++) {
        const int64_t at = lh_policy_spread_row(ev->prompt_tokens, to->rows, r);
        keep(ev, rows, to, (stretch){.first = at, .end = at + 1, .to = r});
    }
}

static void keep_rows(lh_evictor *ev, const lh_query_rows *rows)
{
    const int64_t tokens = ev->prompt_tokens, first = ev->policy.first_rows;
    const row_store scoring = store_of_scoring(ev), references = store_of_references(ev);
    keep_spread(ev, rows, &references);
    if (ev->policy.rows_spread) {
        keep_spread(ev, rows, &scoring);
        return;
    }
    keep(ev, rows, &scoring, (stretch){.end = first});
    keep(ev, rows, &scoring, (stretch){tokens - scoring.rows + first, tokens, first});
}

/* ---- rows that pass ---- */

int lh_evict_uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored)
{
    const lh_source *source = lh_source_of(policy);
    if (lh_keeps_rows(policy) && phase == LH_EVICT_PREFILL && scored) return 1;
    return source && source->uses_rows && source->uses_rows(policy, phase, scored);
}

int64_t lh_evict_first_row(const lh_evictor *ev)
{
    const lh_policy_numbers *p = &ev->policy;
    const int last = lh_evict_uses_attention(p) || (lh_keeps_rows(p) && !lh_source_of(p)->rows);
    const int64_t tokens = ev->prompt_tokens,
                  first = lh_policy_rows(p, tokens) ? lh_policy_row_of(p, tokens, 0) : tokens;
    if (p->block || p->first_rows || !last) return 0;
    return lh_policy_references(p, tokens) ? lh_min_i64(first, lh_policy_reference_of(p, tokens, 0)) : first;
}

void lh_evict_begin_layer(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (source->begin) source->begin(ev, job);
}

static void check_rows(const lh_rows_check *check, const lh_exec *x, const float *lse, int64_t count)
{
    LH_RUN(x, check_finite, .wrong = check->wrong, .x = lse, .count = count);
}

static void copy_check(const lh_rows_check *check, const lh_exec *x)
{
    lh_exec_copy(x, check->known, check->wrong, sizeof *check->wrong, LH_COPY_TO_HOST);
}

void lh_evict_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (job->phase == LH_EVICT_PREFILL)
        check_rows(&ev->check, &ev->exec, rows->lse, rows->tokens * ev->shape.heads.q_count);
    if (lh_keeps_rows(&ev->policy)) keep_rows(ev, rows);
    if (source->rows) source->rows(ev, job, rows);
}

void lh_evict_probes(lh_evictor *ev, const lh_evict_job *job, const lh_probe_rows *probes)
{
    const lh_query_rows *rows = &probes->queries;
    check_rows(&ev->check, &ev->exec, rows->lse, rows->tokens * ev->shape.heads.q_count);
    lh_source_of(&ev->policy)->probes(ev, job, probes);
}

void lh_evict_end_layer(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (source->end) source->end(ev, job);
    copy_check(&ev->check, &ev->exec);
}

lh_status lh_evict_check_rows(const lh_evictor *ev, int64_t layer)
{
    if (*ev->check.known)
        LH_FAIL(LH_EFILE,
                "layer %lld: the attention of the query heads is not finite, so that the cache cannot be ranked; "
                "check the weights with 'longhaul verify'",
                (long long)layer);
    return LH_OK;
}

/* ---- when the layer ends ---- */

static lh_query_rows kept_rows(lh_evictor *ev, const lh_evict_job *job)
{
    lh_row_room room = lh_evict_row_room(ev, job->seen);
    return (lh_query_rows){.q = room.q,
                           .lse = room.lse,
                           .positions = room.positions,
                           .first = job->seen - room.rows,
                           .tokens = room.rows,
                           .first_rows = ev->policy.first_rows,
                           .q_ld = ev->shape.heads.q_count * ev->shape.head_dim,
                           .hidden = ev->store.hidden,
                           .hidden_type = LH_F32};
}

/* A copy of rows, moved from their positions in the prompt to the positions from which they score: rotated back, and
 * again. */
static void rotate_to_after_prompt(lh_evictor *ev, const lh_evict_job *job, lh_query_rows *rows, lh_row_position *from)
{
    const lh_exec *x = &ev->exec;
    const lh_rotation *r = job->layer.rotation;
    const int64_t heads = ev->shape.heads.q_count, dim = ev->shape.head_dim, n = rows->tokens;
    rows->lse = NULL;
    float *q = lh_copy_rows(ev, rows);
    if (!r->rotary) return;
    const int64_t mark = lh_scratch_mark(x);
    const int32_t *positions = lh_put_row_positions(ev, from, job->seen, n);
    float *inverse = lh_scratch_floats(ev, r->rotary / 2);
    LH_LATCH(x, lh_rotation_put_inverse(r, x, inverse));
    LH_RUN(x, rope, .x = q, .positions = positions, .inv_freq = inverse, .tokens = n, .heads = heads, .dim = dim,
           .rotary = r->rotary, .ld = heads * dim, .scale = 1.0f / r->scale, .scaling = lh_rotation_unscaled(r));
    LH_RUN(x, rope, .x = q, .positions = rows->positions, .inv_freq = r->inv_freq, .tokens = n, .heads = heads,
           .dim = dim, .rotary = r->rotary, .ld = heads * dim, .scale = r->scale, .scaling = r->queries);
    lh_scratch_release(x, mark);
}

lh_row_block lh_scoring_rows(lh_evictor *ev, const lh_evict_job *job)
{
    lh_query_rows rows = job->rows ? *job->rows : kept_rows(ev, job);
    if (ev->policy.score.rows_at == LH_ROWS_AT_AFTER) rotate_to_after_prompt(ev, job, &rows, lh_policy_row_of);
    return lh_join_rows(ev, job, &rows);
}

/* n separate reference queries. */
static lh_row_block references_apart(lh_evictor *ev, const lh_evict_job *job, int64_t n)
{
    lh_query_rows rows = {.q = ev->store.references, .tokens = n, .q_ld = ev->shape.heads.q_count * ev->shape.head_dim};
    if (job->references) rows = *job->references;
    rows.positions = lh_put_row_positions(ev, lh_policy_reference_at, job->seen, n);
    rotate_to_after_prompt(ev, job, &rows, lh_policy_reference_of);
    return lh_join_rows(ev, job, &rows);
}

/* Every step-th of rows: the last of each step, as fewer rows are spread. They are where the policy says. */
static void thin(lh_evictor *ev, const lh_evict_job *job, lh_row_block *b, int64_t step)
{
    int32_t positions[LH_REFERENCE_ROWS];
    lh_query_rows *rows = &b->rows;
    const int64_t first = step - 1, n = rows->tokens / step;
    for (int64_t r = 0; r < n; r++) positions[r] = (int32_t)lh_policy_row_at(&ev->policy, job->seen, first + r * step);
    int32_t *at = lh_scratch_alloc(&ev->exec, n * (int64_t)sizeof *at);
    lh_exec_put(&ev->exec, at, positions, n * (int64_t)sizeof *positions);
    rows->positions = at;
    rows->q += first * rows->q_ld;
    rows->lse += first * b->lse_ld;
    rows->tokens = n;
    rows->q_ld *= step;
    b->lse_ld *= step;
}

/* Scoring rows per reference query, if reference queries are scoring rows. */
static int64_t step_of(int64_t rows, int64_t seen)
{
    const int64_t most = lh_policy_reference_rows(seen);
    return (rows + most - 1) / most;
}

int64_t lh_evict_reference_rows(const lh_evictor *ev, int64_t seen)
{
    const int64_t apart = lh_policy_references(&ev->policy, seen), rows = lh_policy_rows(&ev->policy, seen);
    if (lh_methods_have(&ev->policy.methods, LH_REFITS)) return LH_DRAWN_REFERENCES;
    return apart || !rows ? apart : rows / step_of(rows, seen);
}

lh_row_block lh_reference_rows(lh_evictor *ev, const lh_evict_job *job)
{
    const int64_t apart = lh_policy_references(&ev->policy, job->seen);
    if (ev->references.rows.q) return ev->references;
    if (lh_methods_have(&ev->policy.methods, LH_REFITS)) return ev->references = lh_drawn_references(ev, job);
    lh_row_block b = apart                ? references_apart(ev, job, apart)
                     : ev->scoring.rows.q ? ev->scoring
                                          : lh_scoring_rows(ev, job);
    const int64_t step = step_of(b.rows.tokens, job->seen);
    if (step > 1) thin(ev, job, &b, step);
    ev->references = b;
    return b;
}
