/* Norms that weigh scores: of values (AhaKV's prior, arXiv 2506.03762) or of what the output projection makes of them
 * (CriticalKV, arXiv 2502.03805). A value never changes, so its norm is made once and goes with the entry. A projected
 * norm is dear, so at first an entry has only what its norm is at most, with a minus; the second stage asks for the
 * norms that its selection turns on (weigh.c).
 *
 * The bound: with W the columns of a query head, ||vW||_1 <= sqrt(hidden) ||vW||_2, and the mean over the group is at
 * most sqrt(hidden v'Mv), M the mean of the heads' WW' (Jensen). */
#include <math.h>

#include "kv/kv_impl.h"

/* What rounding may do. To M's diagonal goes this part of its trace: v'Mv, M and the norm are off by less than a
 * thousand roundings of f32 (6e-8) relative to trace(M) v'v, whatever cancels. Where values are rounded to bf16 for the
 * norm alone the difference, of size 2^-9 ||v||, has a norm too: (a + b)^2 <= (1 + c) a^2 + (1 + 1 / c) b^2 with c =
 * 2e-3 adds 2e-3. The slack takes this c, and roundings relative to the norm itself. */
static const double RIDGE = 1e-4, ROUNDED_RIDGE = 2.1e-3, SLACK = 1e-3;

/* Of an entry that is not fresh all of this is known. */
static lh_status square_values(lh_kv *kv, const lh_eviction *e)
{
    return kv->place.ops->entry_norms(kv->place.stream,
                                      &(lh_entry_norms_args){.y = lh_kv_stat(&e->pool->view, kv->layout.priors),
                                                             .kv = &e->pool->view,
                                                             .last = kv->layers[e->layer].fresh,
                                                             .part = LH_PART_VALUE,
                                                             .kind = LH_NORM_SQUARE});
}

/* ---- bounds of projected norms ---- */

/* WW' of this rank's query heads. */
static lh_status multiply(lh_kv *kv, const lh_eviction *e)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_kv_projection *o = &kv->shape.projections[e->layer];
    int64_t dim = kv->shape.head_dim, first = h->split ? h->q_first : 0;
    double *products = (double *)kv->work.at[LH_WORK_MOMENTS] + first * dim * dim;
    LH_TRY(lh_stream_zero(kv->place.stream, products, h->q_count * dim * dim * (int64_t)sizeof *products));
    LH_TRY(kv->place.ops->row_moments(kv->place.stream, &(lh_row_moments_args){.products = products,
                                                                               .x = o->w,
                                                                               .type = o->type,
                                                                               .rows = kv->shape.hidden,
                                                                               .heads = h->q_count,
                                                                               .dim = dim,
                                                                               .x_ld = o->ld}));
    return LH_OK;
}

/* The mean of `group` matrices [dim, dim], with its ridge. */
static void join(const lh_heads *h, const double *products, int64_t dim, double ridge, float *form)
{
    double trace = 0.0;
    for (int64_t x = 0; x < dim * dim; x++) {
        double sum = 0.0;
        for (int64_t i = 0; i < h->group; i++) sum += products[i * dim * dim + x];
        form[x] = (float)(sum / (double)h->group);
    }
    for (int64_t x = 0; x < dim; x++) trace += form[x * dim + x];
    for (int64_t x = 0; x < dim; x++) form[x * dim + x] += (float)(ridge * trace);
}

/* M of this rank's KV heads. */
static lh_status make_forms(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int rounded = kv->shape.type == LH_F32 && kv->shape.projections[e->layer].type == LH_BF16;
    int64_t matrix = kv->shape.head_dim * kv->shape.head_dim, n = h->kv_count * h->group;
    const double *from = (double *)kv->work.at[LH_WORK_MOMENTS] + (h->split ? h->kv_first * h->group * matrix : 0);
    double *products = NULL;
    float *forms = NULL;
    LH_TRY_DONE(lh_calloc(&products, n * matrix, sizeof *products));
    LH_TRY_DONE(lh_calloc(&forms, h->kv_count * matrix, sizeof *forms));
    LH_TRY_DONE(lh_stream_copy(kv->place.stream, products, from, n * matrix * (int64_t)sizeof *from, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(kv->place.stream));
    for (int64_t g = 0; g < h->kv_count; g++)
        join(h, products + g * h->group * matrix, kv->shape.head_dim, rounded ? ROUNDED_RIDGE : RIDGE,
             forms + g * matrix);
    LH_TRY_DONE(lh_stream_put(kv->place.stream, kv->work.at[LH_WORK_FORMS], forms,
                              h->kv_count * matrix * (int64_t)sizeof *forms));
done:
    lh_free(products);
    lh_free(forms);
    return st;
}

/* Collective where groups are split. The matrices of a layer cost as much as the norms of head_dim entries: fewer
 * entries get norms at once, because an entry without a bound is always asked for. */
static lh_status bound(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    int64_t dim = kv->shape.head_dim;
    int known = kv->layers[e->layer].fresh > dim;
    if (known && *local == LH_OK) *local = multiply(kv, e);
    if (known && kv->shape.heads.split)
        LH_TRY(lh_kv_exchange_heads(kv, kv->work.at[LH_WORK_MOMENTS], dim * dim * (int64_t)sizeof(double), local));
    if (known && *local == LH_OK) *local = make_forms(kv, e);
    if (*local == LH_OK)
        *local = kv->place.ops->value_bounds(
            kv->place.stream,
            &(lh_value_bounds_args){.y = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                    .kv = &e->pool->view,
                                    .last = kv->layers[e->layer].fresh,
                                    .matrices = known ? kv->work.at[LH_WORK_FORMS] : NULL,
                                    .factor = (float)((1.0 + SLACK) * sqrt((double)kv->shape.hidden))});
    return LH_OK;
}

lh_status lh_kv_make_norms(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    if (kv->layout.norms < 0 || kv->layers[e->layer].fresh == 0) return LH_OK;
    if (*local == LH_OK && kv->clock.seen) *local = lh_kv_save_stats(kv, e->layer);
    if (kv->fixed.score.value_prior && *local == LH_OK) *local = square_values(kv, e);
    if (kv->fixed.select.kind == LH_SELECT_TWO_STAGE) LH_TRY(bound(kv, e, local));
    kv->layers[e->layer].fresh = 0;
    return LH_OK;
}
