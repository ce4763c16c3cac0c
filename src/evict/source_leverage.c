/* Leverage scores of keys (Compactor, arXiv 2507.08143): how much of what the keys of a head span is an entry's own. Of
 * keys before their rotation, x less their mean: x' (X'X + ridge)^-1 x, with X'X = LL' as the squared length of L^-1 x.
 * The paper and kvpress sketch X; L is as small as a head is wide, and exact. A head at a time, its keys in blocks. */
#include <math.h>

#include "evict/evict_impl.h"

/* On the diagonal, as kvpress has it; and a share of the trace, above what rounding leaves. */
static const double RIDGE = 0.01, ROUNDING = 1e-12;

/* LH_SPACE_KEYS: of one head, and of one block of it. */
typedef struct key_room {
    double *sums, *products; /* [dim], [dim, dim] */
    float *keys, *mapped;    /* [LH_ROWS_AT_ONCE, dim] without their rotation; L^-1 of them */
    float *map, *shift;      /* [dim, dim] L^-1, and [dim] what it makes of the mean, negative */
    float *inverse;          /* [dim] frequencies of the inverse rotation */
    int32_t *positions;      /* [LH_ROWS_AT_ONCE] */
} key_room;

static int64_t room_bytes(int64_t dim)
{
    return (dim + dim * dim) * (int64_t)sizeof(double) +
           (2 * LH_ROWS_AT_ONCE * dim + dim * dim + 2 * dim) * (int64_t)sizeof(float) +
           LH_ROWS_AT_ONCE * (int64_t)sizeof(int32_t);
}

static key_room room_of(const lh_evictor *ev)
{
    int64_t dim = ev->shape.head_dim;
    key_room r = {.sums = ev->at[LH_SPACE_KEYS]};
    r.products = r.sums + dim;
    r.keys = (float *)(r.products + dim * dim);
    r.mapped = r.keys + LH_ROWS_AT_ONCE * dim;
    r.map = r.mapped + LH_ROWS_AT_ONCE * dim;
    r.shift = r.map + dim * dim;
    r.inverse = r.shift + dim;
    r.positions = (int32_t *)(r.inverse + dim);
    return r;
}

static void space(const lh_space_request *request, int64_t *bytes)
{
    if (request->need.scored) bytes[LH_SPACE_KEYS] = room_bytes(request->shape->head_dim);
}

/* Some entries of a head: `count` slots from `first` on, of the arena. */
typedef struct key_block {
    int64_t first, count;
    int64_t number; /* of its first entry in the head */
} key_block;

static void put_numbers(const lh_evictor *ev, const key_room *r, const key_block *b)
{
    int32_t numbers[LH_ROWS_AT_ONCE];
    for (int64_t i = 0; i < b->count; i++) numbers[i] = (int32_t)(b->number + i);
    lh_exec_put(&ev->exec, r->positions, numbers, b->count * (int64_t)sizeof *numbers);
}

/* Their keys without the rotation. */
static void unrotate(const lh_evictor *ev, const lh_evict_job *job, const key_room *r, const key_block *b)
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

/* Of `n` keys of KV head h, whose sums are there: the map and the shift. */
static lh_status make_map(const lh_evictor *ev, const lh_evict_job *job, const key_room *r, int64_t h, int64_t n)
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
    centre(sums, products, dim, n);
    if (!factor(products, dim))
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

static void add_block(const lh_evictor *ev, const key_room *r, const key_block *b)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, row_moments, .sums = r->sums, .products = r->products, .x = r->keys, .type = LH_F32,
           .rows = b->count, .heads = 1, .dim = dim, .x_ld = dim);
}

static void score_block(const lh_evictor *ev, const key_room *r, const key_block *b, float *y)
{
    int64_t dim = ev->shape.head_dim;
    LH_RUN(&ev->exec, gemm, .y = r->mapped, .x = r->keys, .w = r->map, .type = LH_F32, .order = ev->shape.order,
           .bias = r->shift, .tokens = b->count, .out = dim, .in = dim, .y_ld = dim, .x_ld = dim, .w_ld = dim);
    LH_RUN(&ev->exec, squares, .y = y + b->number, .x = r->mapped, .tokens = b->count, .heads = 1, .dim = dim,
           .x_ld = dim, .y_ld = 1);
}

static void score_head(lh_evictor *ev, const lh_evict_job *job, int64_t h, const key_block *all)
{
    const key_room r = room_of(ev);
    float *y = (float *)ev->at[LH_SPACE_RAW] + h * ev->ld;
    int64_t dim = ev->shape.head_dim;
    lh_exec_zero(&ev->exec, r.sums, (dim + dim * dim) * (int64_t)sizeof *r.sums);
    for (int pass = 0; pass < 2; pass++) {
        if (pass) LH_LATCH(&ev->exec, make_map(ev, job, &r, h, all->count));
        for (int64_t at = 0; at < all->count; at += LH_ROWS_AT_ONCE) {
            key_block b = {all->first + at, lh_min_i64(all->count - at, LH_ROWS_AT_ONCE), at};
            unrotate(ev, job, &r, &b);
            if (pass)
                score_block(ev, &r, &b, y);
            else
                add_block(ev, &r, &b);
        }
    }
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job)
{
    lh_status st = LH_OK;
    const lh_ragged *kv = job->entries;
    int64_t *len = NULL, bytes = kv->heads * (int64_t)sizeof *len;
    LH_TRY_DONE(lh_calloc(&len, 2 * kv->heads, sizeof *len));
    lh_exec_fetch(&ev->exec, len, kv->len, bytes);
    lh_exec_fetch(&ev->exec, len + kv->heads, kv->offset, bytes);
    if (job->layer.rotation) LH_TRY_DONE(lh_rotation_put_inverse(job->layer.rotation, &ev->exec, room_of(ev).inverse));
    for (int64_t h = 0; h < kv->heads && lh_exec_ok(&ev->exec); h++)
        if (len[h]) score_head(ev, job, h, &(key_block){.first = len[kv->heads + h], .count = len[h]});
done:
    lh_free(len);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job)
{
    LH_LATCH(&ev->exec, score_heads(ev, job));
}

const lh_source lh_source_leverage = {.space = space, .score = score};
