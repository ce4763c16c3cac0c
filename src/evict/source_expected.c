/* Expected attention (arXiv 2510.00636): queries before their rotation are taken for normally distributed, and an entry
 * is worth what the queries of the next positions are expected to give it, times the norm of its value. As the rows of
 * a prompt pass, their sums and products are added up; the distribution is made of them when the layer ends. While
 * decoding it is made of the last rows, which the cache keeps. */
#include <math.h>

#include "evict/evict_impl.h"
#include "kernels/elementwise.h"

enum {
    FUTURE_POSITIONS = 512, /* over which the rotation is averaged */
    LAST_ROWS = 128         /* rows whose queries make the distribution in blocks and after the prompt */
};

static int64_t parts_of_group(const lh_policy_numbers *policy, const lh_heads *heads)
{
    (void)policy;
    return heads->group;
}

/* Sums over rows, of query heads: lh_evictor.sums has the sums of this rank. */
typedef struct moments {
    double *sums, *products; /* [q_count, dim], [q_count, dim, dim] */
} moments;

static int64_t sums_bytes(const lh_evictor *ev)
{
    const lh_evict_shape *shape = &ev->shape;
    return shape->heads.q_count * shape->head_dim * (1 + shape->head_dim) * (int64_t)sizeof(double);
}

static moments moments_of(const lh_evictor *ev)
{
    double *sums = ev->sums;
    return (moments){sums, sums ? sums + ev->shape.heads.q_count * ev->shape.head_dim : NULL};
}

static int uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored)
{
    (void)policy;
    return scored && phase == LH_EVICT_PREFILL;
}

/* ---- while rows pass ---- */

static void begin(lh_evictor *ev, const lh_evict_job *job)
{
    (void)job;
    lh_exec_zero(&ev->exec, ev->sums, sums_bytes(ev));
}

static void add_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    const lh_rotation *r = job->layer.rotation;
    int64_t heads = ev->shape.heads.q_count, dim = ev->shape.head_dim, width = heads * dim;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    const moments m = moments_of(ev);
    float *q = lh_scratch_floats(ev, LH_ROWS_AT_ONCE * width), *inverse = lh_scratch_floats(ev, r->rotary / 2);
    LH_LATCH(&ev->exec, lh_rotation_put_inverse(r, &ev->exec, inverse));
    for (int64_t at = lh_max_i64(ev->policy.sinks - rows->first, 0); at < rows->tokens; at += LH_ROWS_AT_ONCE) {
        int64_t n = lh_min_i64(rows->tokens - at, LH_ROWS_AT_ONCE);
        for (int64_t t = 0; t < n; t++)
            lh_exec_copy(&ev->exec, q + t * width, rows->q + (at + t) * rows->q_ld, width * (int64_t)sizeof *q,
                         LH_COPY_ON_DEVICE);
        LH_RUN(&ev->exec, rope, .x = q, .positions = rows->positions + at, .inv_freq = inverse, .tokens = n,
               .heads = heads, .dim = dim, .rotary = r->rotary, .ld = width, .scale = 1.0f / r->scale,
               .scaling = lh_rotation_unscaled(r));
        LH_RUN(&ev->exec, row_moments, .sums = m.sums, .products = m.products, .x = q, .type = LH_F32, .rows = n,
               .heads = heads, .dim = dim, .x_ld = width);
    }
    lh_scratch_release(&ev->exec, mark);
}

/* ---- at the end of a layer ---- */

/* The rotation of the next positions, on average: [rotary / 2] cosines and sines. */
typedef struct mean_rotation {
    double *cosines, *sines;
    int64_t half;
} mean_rotation;

static lh_status average_rotation(const lh_evictor *ev, const lh_evict_job *job, mean_rotation *out)
{
    lh_status st = LH_OK;
    const lh_rotation *r = job->layer.rotation;
    float *frequencies = NULL;
    out->half = r->rotary / 2;
    LH_TRY_DONE(lh_calloc(&out->cosines, out->half, sizeof *out->cosines));
    LH_TRY_DONE(lh_calloc(&out->sines, out->half, sizeof *out->sines));
    LH_TRY_DONE(lh_rotation_fetch(r, &ev->exec, &frequencies));
    for (int64_t p = 0; p < FUTURE_POSITIONS; p++) {
        const double scale = (double)r->scale * lh_query_factor(&r->queries, (int32_t)(job->seen + p));
        for (int64_t i = 0; i < out->half; i++) {
            double angle = (double)((float)(job->seen + p) * frequencies[i]);
            out->cosines[i] += cos(angle) * scale / FUTURE_POSITIONS;
            out->sines[i] += sin(angle) * scale / FUTURE_POSITIONS;
        }
    }
done:
    lh_free(frequencies);
    return st;
}

/* Rotates x, with stride `step`, in place. */
static void apply(const mean_rotation *m, double *x, int64_t step)
{
    for (int64_t i = 0; i < m->half; i++) {
        double a = x[i * step], b = x[(i + m->half) * step];
        x[i * step] = a * m->cosines[i] - b * m->sines[i];
        x[(i + m->half) * step] = b * m->cosines[i] + a * m->sines[i];
    }
}

/* Sums of `rows` rows become a mean and a covariance, rotated. */
static void to_distribution(const mean_rotation *m, double *sums, double *products, int64_t dim, int64_t rows)
{
    for (int64_t a = 0; a < dim; a++) sums[a] /= (double)rows;
    for (int64_t a = 0; a < dim; a++)
        for (int64_t b = 0; b < dim; b++)
            products[a * dim + b] = products[a * dim + b] / (double)rows - sums[a] * sums[b];
    apply(m, sums, 1);
    for (int64_t a = 0; a < dim; a++) apply(m, products + a * dim, 1);
    for (int64_t b = 0; b < dim; b++) apply(m, products + b, dim);
}

/* n doubles to the host; and doubles as floats to the device. */
static lh_status fetch(const lh_exec *x, const double *from, int64_t n, double **out)
{
    LH_TRY(lh_calloc(out, n, sizeof **out));
    LH_TRY(lh_stream_copy(x->stream, *out, from, n * (int64_t)sizeof **out, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(x->stream));
    return LH_OK;
}

static lh_status put(const lh_exec *x, float *to, const double *values, int64_t n)
{
    lh_status st = LH_OK;
    float *floats = NULL;
    LH_TRY_DONE(lh_calloc(&floats, n, sizeof *floats));
    for (int64_t i = 0; i < n; i++) floats[i] = (float)values[i];
    LH_TRY_DONE(lh_stream_put(x->stream, to, floats, n * (int64_t)sizeof *floats));
done:
    lh_free(floats);
    return st;
}

/* Distributions of the queries of all query heads of this rank's KV heads. */
typedef struct distributions {
    float *means, *covariances; /* [kv_count * group, dim], [kv_count * group, dim, dim] */
} distributions;

/* Number of rows that were added up, without the sinks. */
static int64_t row_count(const lh_evictor *ev, const lh_evict_job *job)
{
    const int64_t first = job->rows ? job->rows->first : 0;
    return job->seen - lh_max_i64(ev->policy.sinks, first);
}

static lh_status find_distributions(const lh_evictor *ev, const lh_evict_job *job, moments of, distributions out)
{
    lh_status st = LH_OK;
    const lh_heads *h = &ev->shape.heads;
    int64_t dim = ev->shape.head_dim, n = h->kv_count * h->group;
    double *sums = NULL, *products = NULL;
    mean_rotation m = {0};
    LH_TRY_DONE(average_rotation(ev, job, &m));
    LH_TRY_DONE(fetch(&ev->exec, of.sums, n * dim, &sums));
    LH_TRY_DONE(fetch(&ev->exec, of.products, n * dim * dim, &products));
    for (int64_t i = 0; i < n; i++)
        to_distribution(&m, sums + i * dim, products + i * dim * dim, dim, row_count(ev, job));
    LH_TRY_DONE(put(&ev->exec, out.means, sums, n * dim));
    LH_TRY_DONE(put(&ev->exec, out.covariances, products, n * dim * dim));
done:
    lh_free(m.cosines);
    lh_free(m.sines);
    lh_free(sums);
    lh_free(products);
    return st;
}

/* Collective. The moments of all query heads of this rank's KV heads, where groups are split; on the scratch stack. */
static moments gather_moments(lh_evictor *ev, moments own)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t dim = ev->shape.head_dim, vector = dim * (int64_t)sizeof(double), first = h->kv_first * h->group;
    double *sums = lh_scratch_alloc(&ev->exec, h->heads * vector),
           *products = lh_scratch_alloc(&ev->exec, h->heads * vector * dim);
    lh_exchange_heads(ev, own.sums, sums, vector);
    lh_exchange_heads(ev, own.products, products, vector * dim);
    return (moments){sums + first * dim, products + first * dim * dim};
}

/* Collective where groups are split. */
static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_exec *x = &ev->exec;
    const lh_heads *h = &ev->shape.heads;
    const int64_t dim = ev->shape.head_dim, n = h->kv_count * h->group, mark = lh_scratch_mark(x);
    moments m = moments_of(ev);
    if (job->rows) {
        begin(ev, job);
        add_rows(ev, job, job->rows);
    }
    if (h->split) m = gather_moments(ev, m);
    const distributions d = {lh_scratch_floats(ev, n * dim), lh_scratch_floats(ev, n * dim * dim)};
    const lh_slot_floats norms = lh_slot_rows(lh_scratch_floats(ev, h->kv_count * ev->ld), 1, ev->ld);
    LH_LATCH(x, find_distributions(ev, job, m, d));
    LH_RUN(x, expected_scores, .y = scores, .means = d.means, .covariances = d.covariances, .state = lh_layer_state(ev),
           .kv = job->entries, .map = {.heads = n, .group = h->group}, .ld = ev->ld, .scale = ev->shape.scale);
    LH_RUN(x, group_reduce, .y = scores, .x = scores, .heads = h->kv_count, .group = h->group, .cols = job->cols,
           .y_ld = ev->ld, .x_ld = ev->ld, .kind = LH_GROUP_MEAN, .factor = 1.0f);
    LH_RUN(x, entry_norms, .y = norms, .kv = job->entries, .last = LH_ALL_ENTRIES, .part = LH_PART_VALUE,
           .kind = LH_NORM_L2);
    LH_RUN(x, weigh_scores, .y = scores, .x = scores, .norms = norms, .len = job->entries->len, .heads = h->kv_count,
           .ld = ev->ld);
    lh_scratch_release(x, mark);
}

static const lh_source source = {.parts = parts_of_group,
                                 .last_rows = LAST_ROWS,
                                 .sums_bytes = sums_bytes,
                                 .uses_rows = uses_rows,
                                 .begin = begin,
                                 .rows = add_rows,
                                 .score = score};

const lh_method lh_method_expected = {.word = "expected",
                                      .help = "The attention that later rows are expected to give.",
                                      .traits = LH_PROMPT_ROWS | LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION,
                                      .source = &source};
