/* Leverage scores of keys (Compactor, arXiv 2507.08143): how much of what the keys of a head span is an entry's own. Of
 * keys before their rotation, x less their mean: x' (X'X + ridge)^-1 x, with X'X = LL' as the squared length of L^-1 x.
 * The paper and kvpress sketch X; L is as small as a head is wide, and exact. A head at a time, its keys in blocks. */
#include <math.h>

#include "base/cholesky.h"
#include "evict/evict_impl.h"
#include "evict/plain_entries.h"

/* On the diagonal, as kvpress has it; and a share of the trace, above what rounding leaves. */
static const double RIDGE = 0.01, ROUNDING = 1e-12;

/* The arrays of a head and of a block of its keys, on the scratch stack. */
typedef struct key_arrays {
    double *sums, *products; /* [dim], [dim, dim] in one block */
    float *mapped;           /* [LH_PLAIN_ENTRIES_AT_ONCE, dim] L^-1 of the keys */
    float *map, *shift;      /* [dim, dim] L^-1, and [dim] its negative product with the mean; in one block */
} key_arrays;

static key_arrays alloc_arrays(const lh_evictor *ev)
{
    const int64_t dim = ev->shape.head_dim;
    key_arrays r = {.sums = lh_scratch_alloc(&ev->exec, (dim + dim * dim) * (int64_t)sizeof *r.sums),
                    .mapped = lh_scratch_floats(ev, LH_PLAIN_ENTRIES_AT_ONCE * dim),
                    .map = lh_scratch_floats(ev, (dim + 1) * dim)};
    r.products = r.sums + dim;
    r.shift = r.map + dim * dim;
    return r;
}

/* ---- the map of a head ---- */

/* In place: sums and products of n keys become their mean and X'X, with the ridge. */
static void centre(double *sums, double *products, int64_t dim, int64_t n)
{
    double trace = 0.0;
    for (int64_t a = 0; a < dim; a++) sums[a] /= (double)n;
    for (int64_t a = 0; a < dim; a++)
        for (int64_t b = 0; b < dim; b++) products[a * dim + b] -= (double)n * sums[a] * sums[b];
    for (int64_t a = 0; a < dim; a++) trace += products[a * dim + a];
    for (int64_t a = 0; a < dim; a++) products[a * dim + a] += RIDGE + ROUNDING * trace;
}

/* The lower triangle l is inverted in place, and the upper one is 0. */
static void invert(double *l, int64_t dim)
{
    for (int64_t b = 0; b < dim; b++) {
        l[b * dim + b] = 1.0 / l[b * dim + b];
        for (int64_t a = b + 1; a < dim; a++) {
            double sum = 0.0;
            for (int64_t c = b; c < a; c++) sum -= l[a * dim + c] * l[c * dim + b];
            l[a * dim + b] = sum / l[a * dim + a];
            l[b * dim + a] = 0.0;
        }
    }
}

/* The map and the shift of KV head h, from the sums of all its keys. */
static lh_status make_map(const lh_evictor *ev, const lh_evict_job *job, const key_arrays *r, int64_t h, int64_t len)
{
    lh_status st = LH_OK;
    int64_t dim = ev->shape.head_dim, floats = (dim + 1) * dim;
    double *sums = NULL, *products;
    float *map = NULL;
    LH_TRY_DONE(lh_calloc(&sums, dim + dim * dim, sizeof *sums));
    LH_TRY_DONE(lh_calloc(&map, floats, sizeof *map));
    products = sums + dim;
    lh_exec_fetch(&ev->exec, sums, r->sums, (dim + dim * dim) * (int64_t)sizeof *sums);
    if (!lh_exec_ok(&ev->exec)) goto done; /* it is latched */
    centre(sums, products, dim, len);
    if (!lh_cholesky(products, dim))
        LH_FAIL_DONE(LH_EFILE,
                     "layer %lld: the keys of KV head %lld are not finite, so that the cache cannot be ranked; check "
                     "the weights with 'longhaul verify'",
                     (long long)job->layer.index, (long long)(ev->shape.heads.kv_first + h));
    invert(products, dim);
    for (int64_t a = 0; a < dim; a++) {
        double shift = 0.0;
        for (int64_t b = 0; b < dim; b++) {
            shift -= products[a * dim + b] * sums[b];
            map[a * dim + b] = (float)products[a * dim + b];
        }
        map[dim * dim + a] = (float)shift;
    }
    lh_exec_put(&ev->exec, r->map, map, floats * (int64_t)sizeof *map);
done:
    lh_free(sums);
    lh_free(map);
    return st;
}

/* ---- scores ---- */

static void add_block(const lh_evictor *ev, const key_arrays *r, const float *keys, int64_t count)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, row_moments, .sums = r->sums, .products = r->products, .x = keys, .type = LH_F32, .rows = count,
           .heads = 1, .dim = dim, .x_ld = dim);
}

static void score_block(const lh_evictor *ev, const key_arrays *r, const float *keys, int64_t count, float *y)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, gemm, .y = r->mapped, .x = keys, .w = lh_plain_matrix(r->map, LH_F32, dim), .type = LH_F32,
           .order = ev->shape.order, .bias = r->shift, .tokens = count, .out = dim, .in = dim, .y_ld = dim,
           .x_ld = dim);
    LH_RUN(&ev->exec, squares, .y = y, .x = r->mapped, .tokens = count, .heads = 1, .dim = dim, .x_ld = dim, .y_ld = 1);
}

/* y = scores of the entries of KV head h. */
static void score_head(lh_evictor *ev, const lh_evict_job *job, const key_arrays *r, const lh_plain_entries *p,
                       int64_t h, float *y)
{
    const int64_t dim = ev->shape.head_dim, len = p->len[h];
    lh_exec_zero(&ev->exec, r->sums, (dim + dim * dim) * (int64_t)sizeof *r->sums);
    for (int pass = 0; pass < 2; pass++) {
        if (pass) LH_LATCH(&ev->exec, make_map(ev, job, r, h, len));
        for (int64_t at = 0; at < len; at += LH_PLAIN_ENTRIES_AT_ONCE) {
            const int64_t count = lh_min_i64(len - at, LH_PLAIN_ENTRIES_AT_ONCE);
            lh_plain_entries_load(p, h, at, count);
            if (pass)
                score_block(ev, r, p->keys, count, y + at);
            else
                add_block(ev, r, p->keys, count);
        }
    }
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    const key_arrays r = alloc_arrays(ev);
    lh_plain_entries p;
    LH_TRY_DONE(lh_plain_entries_open(&p, &ev->exec, job->entries, lh_key_rotation(ev, job), LH_PLAIN_KEYS));
    for (int64_t h = 0; h < job->entries->heads && lh_exec_ok(&ev->exec); h++)
        if (p.len[h]) score_head(ev, job, &r, &p, h, scores + h * ev->ld);
done:
    lh_plain_entries_close(&p);
    lh_scratch_release(&ev->exec, mark);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_LATCH(&ev->exec, score_heads(ev, job, scores));
}

static const lh_source source = {.score = score};

const lh_method lh_method_leverage = {.word = "leverage",
                                      .help = "Keys that the others do not span first: their leverage scores.",
                                      .traits = LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION,
                                      .source = &source};
