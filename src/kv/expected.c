/* Expected attention (arXiv 2510.00636): queries before their rotation are taken for normally distributed, and an entry
 * is worth what the queries of the next positions are expected to give it, times the norm of its value. */
#include <math.h>
#include <string.h>

#include "kv/kv_impl.h"

enum { FUTURE_POSITIONS = 512 }; /* over which the rotation is averaged */

/* ---- while rows pass ---- */

/* The rotation is taken back: the same angles, the other way. */
static lh_status turn_back(lh_kv *kv, int64_t layer, float *q, const int32_t *positions, int64_t rows)
{
    const lh_kv_rotation *r = lh_kv_rotation_of(kv, layer);
    const lh_heads *h = &kv->shape.heads;
    return kv->place.ops->rope(kv->place.stream, &(lh_rope_args){.x = q,
                                                                 .positions = positions,
                                                                 .inv_freq = kv->rows.at[LH_ROWS_TURN],
                                                                 .tokens = rows,
                                                                 .heads = h->q_count,
                                                                 .dim = kv->shape.head_dim,
                                                                 .rotary = r->rotary,
                                                                 .ld = h->q_count * kv->shape.head_dim,
                                                                 .scale = 1.0f / r->scale});
}

/* Where this rank's query heads begin among those of all ranks (of its own, where groups are whole). */
static int64_t own_head(const lh_kv *kv)
{
    return kv->shape.heads.split ? kv->shape.heads.q_first : 0;
}

lh_status lh_kv_expect_rows(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    int64_t dim = kv->shape.head_dim, width = kv->shape.heads.q_count * dim;
    int64_t skip = kv->fixed.sinks > rows->first ? kv->fixed.sinks - rows->first : 0;
    float *q = kv->rows.at[LH_ROWS_Q];
    double *sums = (double *)kv->rows.at[LH_ROWS_SUMS] + own_head(kv) * dim,
           *products = (double *)kv->rows.at[LH_ROWS_PRODUCTS] + own_head(kv) * dim * dim;
    for (int64_t at = skip; at < rows->tokens; at += LH_ROWS_AT_ONCE) {
        int64_t n = rows->tokens - at < LH_ROWS_AT_ONCE ? rows->tokens - at : LH_ROWS_AT_ONCE;
        for (int64_t r = 0; r < n; r++)
            LH_TRY(lh_stream_copy(kv->place.stream, q + r * width, rows->q + (at + r) * rows->q_ld,
                                  width * (int64_t)sizeof *q, LH_COPY_ON_DEVICE));
        LH_TRY(turn_back(kv, layer, q, rows->positions + at, n));
        LH_TRY(kv->place.ops->row_moments(kv->place.stream, &(lh_row_moments_args){.sums = sums,
                                                                                   .products = products,
                                                                                   .x = q,
                                                                                   .type = LH_F32,
                                                                                   .rows = n,
                                                                                   .heads = kv->shape.heads.q_count,
                                                                                   .dim = dim,
                                                                                   .x_ld = width}));
    }
    return LH_OK;
}

lh_status lh_kv_expect_begin(lh_kv *kv, int64_t layer)
{
    static const lh_row_part parts[] = {LH_ROWS_SUMS, LH_ROWS_PRODUCTS};
    for (int i = 0; i < 2; i++)
        LH_TRY(lh_stream_zero(kv->place.stream, kv->rows.at[parts[i]], kv->rows.bytes[parts[i]]));
    LH_TRY(lh_kv_put_backwards(kv, layer, kv->rows.at[LH_ROWS_TURN]));
    return LH_OK;
}

/* ---- at the end of a layer ---- */

/* The rotation of the next positions, on average: [rotary / 2] cosines and sines. */
typedef struct turn {
    double *cosines, *sines;
    int64_t half;
} turn;

static lh_status average_turn(lh_kv *kv, const lh_eviction *e, turn *out)
{
    lh_status st = LH_OK;
    const lh_kv_rotation *r = lh_kv_rotation_of(kv, e->layer);
    float *frequencies = NULL;
    out->half = r->rotary / 2;
    LH_TRY_DONE(lh_calloc(&out->cosines, out->half, sizeof *out->cosines));
    LH_TRY_DONE(lh_calloc(&out->sines, out->half, sizeof *out->sines));
    LH_TRY_DONE(lh_kv_fetch_frequencies(kv, e->layer, &frequencies));
    for (int64_t i = 0; i < out->half; i++)
        for (int64_t p = 0; p < FUTURE_POSITIONS; p++) {
            double angle = (double)((float)(e->seen + p) * frequencies[i]);
            out->cosines[i] += cos(angle) * r->scale / FUTURE_POSITIONS;
            out->sines[i] += sin(angle) * r->scale / FUTURE_POSITIONS;
        }
done:
    lh_free(frequencies);
    return st;
}

/* x (elements `step` apart) is rotated in place. */
static void apply(const turn *t, double *x, int64_t step)
{
    for (int64_t i = 0; i < t->half; i++) {
        double a = x[i * step], b = x[(i + t->half) * step];
        x[i * step] = a * t->cosines[i] - b * t->sines[i];
        x[(i + t->half) * step] = b * t->cosines[i] + a * t->sines[i];
    }
}

/* Sums of `rows` rows become a mean and a covariance, rotated. */
static void to_distribution(const turn *t, double *sums, double *products, int64_t dim, int64_t rows)
{
    for (int64_t x = 0; x < dim; x++) sums[x] /= (double)rows;
    for (int64_t x = 0; x < dim; x++)
        for (int64_t y = 0; y < dim; y++)
            products[x * dim + y] = products[x * dim + y] / (double)rows - sums[x] * sums[y];
    apply(t, sums, 1);
    for (int64_t x = 0; x < dim; x++) apply(t, products + x * dim, 1);
    for (int64_t y = 0; y < dim; y++) apply(t, products + y, dim);
}

/* n doubles of a row part from element `first` on, to the host. */
static lh_status fetch(lh_kv *kv, lh_row_part part, int64_t first, int64_t n, double **out)
{
    LH_TRY(lh_calloc(out, n, sizeof **out));
    LH_TRY(lh_stream_copy(kv->place.stream, *out, (double *)kv->rows.at[part] + first, n * (int64_t)sizeof **out,
                          LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    return LH_OK;
}

static lh_status put(lh_kv *kv, lh_row_part part, const double *values, int64_t n)
{
    lh_status st = LH_OK;
    float *narrow = NULL;
    LH_TRY_DONE(lh_calloc(&narrow, n, sizeof *narrow));
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)values[i];
    LH_TRY_DONE(lh_stream_put(kv->place.stream, kv->rows.at[part], narrow, n * (int64_t)sizeof *narrow));
done:
    lh_free(narrow);
    return st;
}

/* Distributions of the queries of all query heads of this rank's KV heads. */
static lh_status find_distributions(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t dim = kv->shape.head_dim, n = h->kv_count * h->group, first = h->split ? h->kv_first * h->group : 0;
    int64_t rows = e->seen - kv->fixed.sinks;
    double *sums = NULL, *products = NULL;
    turn t = {0};
    LH_TRY_DONE(average_turn(kv, e, &t));
    LH_TRY_DONE(fetch(kv, LH_ROWS_SUMS, first * dim, n * dim, &sums));
    LH_TRY_DONE(fetch(kv, LH_ROWS_PRODUCTS, first * dim * dim, n * dim * dim, &products));
    for (int64_t i = 0; i < n; i++) to_distribution(&t, sums + i * dim, products + i * dim * dim, dim, rows);
    LH_TRY_DONE(put(kv, LH_ROWS_MEANS, sums, n * dim));
    LH_TRY_DONE(put(kv, LH_ROWS_COVARIANCES, products, n * dim * dim));
done:
    lh_free(t.cosines);
    lh_free(t.sines);
    lh_free(sums);
    lh_free(products);
    return st;
}

static lh_status score(lh_kv *kv, const lh_eviction *e)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_ops *ops = kv->place.ops;
    float *raw = kv->work.at[LH_WORK_RAW];
    lh_slot_floats norms = lh_kv_rows_of(kv->work.at[LH_WORK_SECOND], 1, kv->work.ld);
    LH_TRY(ops->expected_scores(kv->place.stream,
                                &(lh_expected_scores_args){.y = raw,
                                                           .means = kv->rows.at[LH_ROWS_MEANS],
                                                           .covariances = kv->rows.at[LH_ROWS_COVARIANCES],
                                                           .state = kv->work.at[LH_WORK_STATE],
                                                           .kv = &e->pool->view,
                                                           .map = {.heads = h->kv_count * h->group, .group = h->group},
                                                           .ld = kv->work.ld,
                                                           .scale = kv->shape.scale}));
    LH_TRY(ops->group_reduce(kv->place.stream, &(lh_group_reduce_args){.y = raw,
                                                                       .x = raw,
                                                                       .heads = h->kv_count,
                                                                       .group = h->group,
                                                                       .cols = e->cols,
                                                                       .y_ld = kv->work.ld,
                                                                       .x_ld = kv->work.ld,
                                                                       .kind = LH_GROUP_MEAN,
                                                                       .factor = 1.0f}));
    LH_TRY(ops->entry_norms(
        kv->place.stream,
        &(lh_entry_norms_args){
            .y = norms, .kv = &e->pool->view, .last = LH_ALL_ENTRIES, .part = LH_PART_VALUE, .kind = LH_NORM_L2}));
    LH_TRY(ops->weigh_scores(
        kv->place.stream,
        &(lh_weigh_scores_args){
            .y = raw, .x = raw, .norms = norms, .len = e->pool->view.len, .heads = h->kv_count, .ld = kv->work.ld}));
    return LH_OK;
}

lh_status lh_kv_expect(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    int64_t dim = kv->shape.head_dim;
    if (kv->shape.heads.split) {
        LH_TRY(lh_kv_exchange_heads(kv, kv->rows.at[LH_ROWS_SUMS], dim * (int64_t)sizeof(double), local));
        LH_TRY(lh_kv_exchange_heads(kv, kv->rows.at[LH_ROWS_PRODUCTS], dim * dim * (int64_t)sizeof(double), local));
    }
    if (*local == LH_OK) *local = find_distributions(kv, e);
    if (*local == LH_OK) *local = score(kv, e);
    return LH_OK;
}
