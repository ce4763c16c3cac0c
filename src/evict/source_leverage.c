/* Leverage scores of keys (Compactor, arXiv 2507.08143): how much of what the keys of a head span is an entry's own. Of
 * keys before their rotation, x less their mean: x' (X'X + ridge)^-1 x, with X'X = LL' as the squared length of L^-1 x.
 * The paper and kvpress sketch X; L is as small as a head is wide, and exact. A head at a time, its keys in blocks. */
#include <math.h>

#include "evict/evict_impl.h"

/* On the diagonal, as kvpress has it; and a share of the trace, above what rounding leaves. */
static const double RIDGE = 0.01, ROUNDING = 1e-12;

/* The arrays of a head and of a block of its keys, on the scratch stack. */
typedef struct key_arrays {
    double *sums, *products; /* [dim], [dim, dim] in one block */
    float *keys, *mapped;    /* [LH_ROWS_AT_ONCE, dim] without their rotation; L^-1 of them */
    float *map, *shift;      /* [dim, dim] L^-1, and [dim] its negative product with the mean; in one block */
    float *inverse;          /* [dim] frequencies of the inverse rotation */
    int32_t *positions;      /* [LH_ROWS_AT_ONCE] */
} key_arrays;

static key_arrays alloc_arrays(const lh_evictor *ev)
{
    const int64_t dim = ev->shape.head_dim;
    key_arrays r = {.sums = lh_scratch_alloc(&ev->exec, (dim + dim * dim) * (int64_t)sizeof *r.sums),
                    .keys = lh_scratch_floats(ev, LH_ROWS_AT_ONCE * dim),
                    .mapped = lh_scratch_floats(ev, LH_ROWS_AT_ONCE * dim),
                    .map = lh_scratch_floats(ev, (dim + 1) * dim),
                    .inverse = lh_scratch_floats(ev, dim),
                    .positions = lh_scratch_alloc(&ev->exec, LH_ROWS_AT_ONCE * (int64_t)sizeof *r.positions)};
    r.products = r.sums + dim;
    r.shift = r.map + dim * dim;
    return r;
}

/* Some entries of a head: `count` slots from `first` on, of the arena. */
typedef struct key_block {
    int64_t head, first, count;
    int64_t number; /* of its first entry in the head */
} key_block;

static void put_numbers(const lh_evictor *ev, const key_arrays *r, const key_block *b)
{
    int32_t numbers[LH_ROWS_AT_ONCE];
    for (int64_t i = 0; i < b->count; i++) numbers[i] = (int32_t)(b->number + i);
    lh_exec_put(&ev->exec, r->positions, numbers, b->count * (int64_t)sizeof *numbers);
}

/* Their keys without the rotation. */
static void unrotate(const lh_evictor *ev, const lh_evict_job *job, const key_arrays *r, const key_block *b)
{
    const lh_ragged *kv = job->entries;
    const lh_rotation *rotation = job->layer.rotation;
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, convert, .dst = r->keys, .src = (char *)kv->k + b->first * dim * lh_dtype_bytes(kv->type),
           .src_type = kv->type, .rows = b->count, .cols = dim, .dst_ld = dim, .src_ld = dim);
    if (!rotation || !rotation->rotary) return;
    if (!kv->positions) put_numbers(ev, r, b);
    LH_RUN(&ev->exec, rope, .x = r->keys, .positions = kv->positions ? kv->positions + b->first : r->positions,
           .inv_freq = r->inverse, .tokens = b->count, .heads = 1, .dim = dim, .rotary = rotation->rotary, .ld = dim,
           .scale = 1.0f / rotation->scale);
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

/* The lower triangle of m becomes L with m = LL' (Cholesky). 0: m is not finite. */
static int factor(double *m, int64_t dim)
{
    for (int64_t a = 0; a < dim; a++)
        for (int64_t b = 0; b <= a; b++) {
            double sum = m[a * dim + b];
            for (int64_t c = 0; c < b; c++) sum -= m[a * dim + c] * m[b * dim + c];
            if (a == b && !(sum > 0.0 && isfinite(sum))) return 0;
            m[a * dim + b] = a == b ? sqrt(sum) : sum / m[b * dim + b];
        }
    return 1;
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

/* The map and the shift of a KV head, from the sums of all its keys. */
static lh_status make_map(const lh_evictor *ev, const lh_evict_job *job, const key_arrays *r, const key_block *all)
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
    centre(sums, products, dim, all->count);
    if (!factor(products, dim))
        LH_FAIL_DONE(LH_EFILE,
                     "layer %lld: the keys of KV head %lld are not finite, so that the cache cannot be ranked; check "
                     "the weights with 'longhaul verify'",
                     (long long)job->layer.index, (long long)(ev->shape.heads.kv_first + all->head));
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

static void add_block(const lh_evictor *ev, const key_arrays *r, const key_block *b)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, row_moments, .sums = r->sums, .products = r->products, .x = r->keys, .type = LH_F32,
           .rows = b->count, .heads = 1, .dim = dim, .x_ld = dim);
}

static void score_block(const lh_evictor *ev, const key_arrays *r, const key_block *b, float *y)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, gemm, .y = r->mapped, .x = r->keys, .w = lh_plain_matrix(r->map, LH_F32, dim), .type = LH_F32,
           .order = ev->shape.order, .bias = r->shift, .tokens = b->count, .out = dim, .in = dim, .y_ld = dim,
           .x_ld = dim);
    LH_RUN(&ev->exec, squares, .y = y + b->number, .x = r->mapped, .tokens = b->count, .heads = 1, .dim = dim,
           .x_ld = dim, .y_ld = 1);
}

/* y = scores of the entries `all` of a KV head. */
static void score_head(lh_evictor *ev, const lh_evict_job *job, const key_arrays *r, const key_block *all, float *y)
{
    int64_t dim = ev->shape.head_dim;
    lh_exec_zero(&ev->exec, r->sums, (dim + dim * dim) * (int64_t)sizeof *r->sums);
    for (int pass = 0; pass < 2; pass++) {
        if (pass) LH_LATCH(&ev->exec, make_map(ev, job, r, all));
        for (int64_t at = 0; at < all->count; at += LH_ROWS_AT_ONCE) {
            key_block b = {all->head, all->first + at, lh_min_i64(all->count - at, LH_ROWS_AT_ONCE), at};
            unrotate(ev, job, r, &b);
            if (pass)
                score_block(ev, r, &b, y);
            else
                add_block(ev, r, &b);
        }
    }
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    const key_arrays r = alloc_arrays(ev);
    const lh_ragged *kv = job->entries;
    int64_t *len = NULL, bytes = kv->heads * (int64_t)sizeof *len;
    LH_TRY_DONE(lh_calloc(&len, 2 * kv->heads, sizeof *len));
    lh_exec_fetch(&ev->exec, len, kv->len, bytes);
    lh_exec_fetch(&ev->exec, len + kv->heads, kv->offset, bytes);
    if (job->layer.rotation) LH_TRY_DONE(lh_rotation_put_inverse(job->layer.rotation, &ev->exec, r.inverse));
    for (int64_t h = 0; h < kv->heads && lh_exec_ok(&ev->exec); h++)
        if (len[h])
            score_head(ev, job, &r, &(key_block){.head = h, .first = len[kv->heads + h], .count = len[h]},
                       scores + h * ev->ld);
done:
    lh_scratch_release(&ev->exec, mark);
    lh_free(len);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_LATCH(&ev->exec, score_heads(ev, job, scores));
}

static const lh_source source = {.score = score};

const lh_method lh_method_leverage = {.word = "leverage",
                                      .help = "Keys that the others do not span first: their leverage scores.",
                                      .traits = LH_WHOLE_PROMPT | LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION,
                                      .source = &source};
