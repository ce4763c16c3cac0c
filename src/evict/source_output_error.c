/* What rows would put out without an entry: the squared errors of their outputs, summed over rows and query heads
 * (CAOTE, arXiv 2504.14051; summed over the rows of a window as in DropKV, kvpress #284). The entry's weight p goes to
 * the others in their proportions, so that the output o of a row moves by p / (1 - p) (o - v): exact for a single
 * eviction, and in the same unit for all heads.
 *
 * Rows are observed when a layer's prefill ends and again at every eviction, like the rows of a window. A head and at
 * most LH_ROWS_AT_ONCE rows at a time: their outputs over all entries, then the errors, a block of entries at a time.
 * Products are in f32, since what counts are differences. Ranks that hold the same KV head compute the same. */
#include "evict/evict_impl.h"
#include "evict/fit.h"

/* n = group x rows; on the scratch stack. */
typedef struct error_arrays {
    float *sums, *rest;        /* [dim + 1, n] over all entries, and over entries without a dominant weight */
    float *outputs, *energies; /* [n, dim], not yet over the row's mass, and their squares */
    float *products;           /* [n, LH_FIT_AT_ONCE] of outputs and values */
    float *values, *squares;   /* [LH_FIT_AT_ONCE, dim] and theirs */
} error_arrays;

static int64_t rows_at_once(const lh_policy_numbers *p)
{
    return lh_min_i64(p->rows, LH_ROWS_AT_ONCE);
}

/* For at most `rows` rows. */
static error_arrays alloc_arrays(const lh_evictor *ev, int64_t rows)
{
    const int64_t dim = ev->shape.head_dim, n = rows * ev->shape.heads.group, block = LH_FIT_AT_ONCE;
    return (error_arrays){.sums = lh_scratch_floats(ev, (dim + 1) * n),
                          .rest = lh_scratch_floats(ev, (dim + 1) * n),
                          .outputs = lh_scratch_floats(ev, n * dim),
                          .energies = lh_scratch_floats(ev, n),
                          .products = lh_scratch_floats(ev, n * block),
                          .values = lh_scratch_floats(ev, block * dim),
                          .squares = lh_scratch_floats(ev, block)};
}

/* A block of rows, and the entries of a head. */
typedef struct error_block {
    lh_evictor *ev;
    error_arrays arrays;
    float *scores; /* [kv_count, ld] */
    lh_fit fit;
    int64_t h, len, n; /* n: group x rows */
} error_block;

static error_block block_of(lh_evictor *ev, const lh_evict_job *job, const int64_t *offset, float *scores)
{
    const lh_heads *heads = &ev->shape.heads;
    const lh_row_block *b = &ev->scoring;
    error_block e = {.ev = ev, .arrays = alloc_arrays(ev, rows_at_once(&ev->policy)), .scores = scores};
    e.fit = (lh_fit){.rows = {.q = b->rows.q,
                              .positions = b->rows.positions,
                              .until = b->until,
                              .gains = b->gains,
                              .kv = job->entries,
                              .map = {.heads = heads->kv_count * heads->group, .group = heads->group},
                              .logit = lh_logit_of(ev, job),
                              .q_ld = b->rows.q_ld},
                     .lse = b->rows.lse,
                     .lse_ld = b->lse_ld,
                     .offset = offset,
                     .order = ev->shape.order,
                     .exact = 1};
    return e;
}

/* Rows [first, first + count) of the block of all of them. */
static void take_rows(error_block *e, const lh_row_block *b, int64_t first, int64_t count)
{
    lh_observed *rows = &e->fit.rows;
    rows->q = b->rows.q + first * b->rows.q_ld;
    rows->positions = b->rows.positions + first;
    rows->until = b->until ? b->until + first : NULL;
    rows->gains = b->gains ? b->gains + first : NULL;
    rows->rows = count;
    e->fit.lse = b->rows.lse + first * b->lse_ld;
    e->n = count * rows->map.group;
}

/* y = the rows' sums over all entries with weights of at most `most`. */
static void add_up(error_block *e, float *y, float most)
{
    const int64_t dim = e->ev->shape.head_dim;
    e->fit.most = most;
    lh_exec_zero(&e->ev->exec, y, (dim + 1) * e->n * (int64_t)sizeof *y);
    lh_fit_add_sums(&e->ev->exec, &e->fit, (lh_fit_slots){.head = e->h, .count = e->len}, y);
    e->fit.most = 0;
}

/* y [tokens] = the squared lengths of the rows of x [tokens, dim]. */
static void square(const error_block *e, float *y, const float *x, int64_t tokens)
{
    const int64_t dim = e->ev->shape.head_dim;
    LH_RUN(&e->ev->exec, squares, .y = y, .x = x, .tokens = tokens, .heads = 1, .dim = dim, .x_ld = dim, .y_ld = 1);
}

static void make_outputs(error_block *e)
{
    const error_arrays *r = &e->arrays;
    const int64_t dim = e->ev->shape.head_dim;
    add_up(e, r->sums, 0);
    add_up(e, r->rest, LH_DOMINANT);
    LH_RUN(&e->ev->exec, transpose, .y = r->outputs, .x = r->sums, .y_type = LH_F32, .x_type = LH_F32, .rows = dim,
           .cols = e->n, .y_ld = dim, .x_ld = e->n, .factor = 1.0f);
    square(e, r->energies, r->outputs, e->n);
}

/* Of `count` slots, from `first` on. */
static void add_errors(const error_block *e, int64_t first, int64_t count)
{
    const lh_evictor *ev = e->ev;
    const error_arrays *r = &e->arrays;
    const lh_ragged *kv = e->fit.rows.kv;
    const int64_t dim = kv->head_dim, at = (e->fit.offset[e->h] + first) * dim * lh_dtype_bytes(kv->type);
    const int64_t mark = lh_scratch_mark(&ev->exec);
    const float *weights =
        lh_fit_weights(&ev->exec, &e->fit, (lh_fit_slots){.head = e->h, .first = first, .count = count});
    LH_RUN(&ev->exec, convert, .dst = r->values, .src = (char *)kv->v + at, .dst_type = LH_F32, .src_type = kv->type,
           .rows = count, .cols = dim, .dst_ld = dim, .src_ld = dim);
    square(e, r->squares, r->values, count);
    LH_RUN(&ev->exec, gemm, .y = r->products, .x = r->outputs, .w = lh_plain_matrix(r->values, LH_F32, dim),
           .type = LH_F32, .order = ev->shape.order, .tokens = e->n, .out = count, .in = dim, .y_ld = count,
           .x_ld = dim);
    LH_RUN(&ev->exec, output_errors, .errors = e->scores + e->h * ev->ld + first, .weights = weights,
           .products = r->products, .squares = r->squares, .values = r->values, .energies = r->energies,
           .masses = r->sums + dim * e->n, .rest = r->rest, .n = e->n, .cols = count, .dim = dim, .ld = count);
    lh_scratch_release(&ev->exec, mark);
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const lh_ragged *kv = job->entries;
    const int64_t bytes = kv->heads * (int64_t)sizeof(int64_t), most = rows_at_once(&ev->policy),
                  mark = lh_scratch_mark(&ev->exec);
    const lh_row_block b = ev->scoring;
    int64_t *len = NULL;
    LH_TRY_DONE(lh_calloc(&len, 2 * kv->heads, sizeof *len));
    for (int64_t h = 0; h < kv->heads; h++) len[h] = job->cols; /* on a device that only counts */
    lh_exec_fetch(&ev->exec, len, kv->len, bytes);
    lh_exec_fetch(&ev->exec, len + kv->heads, kv->offset, bytes);
    error_block e = block_of(ev, job, len + kv->heads, scores);
    for (e.h = 0; e.h < kv->heads; e.h++)
        for (int64_t r = 0; r < b.rows.tokens && lh_exec_ok(&ev->exec); r += most) {
            e.len = len[e.h];
            take_rows(&e, &b, r, lh_min_i64(most, b.rows.tokens - r));
            make_outputs(&e);
            for (int64_t s = 0; s < e.len; s += LH_FIT_AT_ONCE)
                add_errors(&e, s, lh_min_i64(LH_FIT_AT_ONCE, e.len - s));
        }
done:
    lh_scratch_release(&ev->exec, mark);
    lh_free(len);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    ev->scoring = lh_scoring_rows(ev, job);
    lh_exec_zero(&ev->exec, scores, ev->shape.heads.kv_count * ev->ld * (int64_t)sizeof *scores);
    LH_LATCH(&ev->exec, score_heads(ev, job, scores));
}

static const lh_source source = {.score = score};

const lh_method lh_method_output_error = {.word = "output-error",
                                          .help = "The squared error of the rows' outputs without an entry.",
                                          .traits = LH_ATTENDS | LH_JOINT_STATISTIC | LH_ROWS_TOGETHER |
                                                    LH_AT_EVICTION | LH_NORMALISERS | LH_NEEDS_ENTRIES,
                                          .check = lh_check_scoring_rows,
                                          .source = &source};
