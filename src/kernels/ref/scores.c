/* Scores of entries from statistics, keys, values and random numbers, and their shaping. */
#define LH_IN_DOUBLE
#include <math.h>

#include "base/minmax.h"
#include "kernels/ref/attend.h"
#include "kernels/ref/ref.h"
#include "kernels/slotwise.h"

static double finished(const lh_finish_scores_args *a, double x, double squares, double n)
{
    if (a->kind == LH_FINISH_PLAIN) return a->factor * x;
    if (a->kind == LH_FINISH_ROOT) return sqrt(a->factor * x);
    if (n <= 0) return 0.0;
    if (a->kind == LH_FINISH_PER_VISIT) return a->factor * x / n;
    if (n <= 1) return 0.0; /* one number has no deviation, regardless of rounding */
    return sqrt(fmax(0.0, squares / n - x / n * (x / n)));
}

lh_status lh_ref_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t c = 0; c < a->parts; c++) {
            for (int64_t s = 0; s < a->kv->len[h]; s++) {
                double squares = a->kind == LH_FINISH_DEVIATION ? *lh_slot_at(&a->squares, h, s, c) : 0.0;
                double n = lh_visits_of(a, (double)lh_position(a->kv, h, s));
                a->y[(h * a->parts + c) * a->ld + s] = (float)finished(a, *lh_slot_at(&a->x, h, s, c), squares, n);
            }
        }
    }
    return LH_OK;
}

lh_status lh_ref_apply_prior(lh_stream *stream, const lh_apply_prior_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        float *y = a->y + h * a->ld;
        const float *prior = a->prior + h * a->ld;
        const uint8_t *state = a->state + h * a->ld;
        double top = 0.0; /* of norms */
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (state[s] == LH_ENTRY_COMPETES) top = fmax(top, prior[s]);
        }
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (state[s] == LH_ENTRY_COMPETES) y[s] = top == 0 ? 0.0f : (float)(y[s] * (prior[s] / top));
        }
    }
    return LH_OK;
}

/* Sums of scores and norms over the competing entries of head h; returns their number. */
static int64_t sum_competing(const lh_defend_scores_args *a, int64_t h, double sums[2])
{
    int64_t count = 0;
    sums[0] = sums[1] = 0.0;
    for (int64_t s = 0; s < a->len[h]; s++) {
        if (a->state[h * a->ld + s] != LH_ENTRY_COMPETES) continue;
        sums[0] += a->y[h * a->ld + s];
        if (a->norms.at) sums[1] += *lh_slot_at(&a->norms, h, s, 0);
        count++;
    }
    return count;
}

lh_status lh_ref_defend_scores(lh_stream *stream, const lh_defend_scores_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        double sums[2];
        int64_t count = sum_competing(a, h, sums);
        for (int64_t s = 0; s < a->len[h]; s++) {
            float *y = a->y + h * a->ld + s, norm = a->norms.at ? *lh_slot_at(&a->norms, h, s, 0) : -1.0f;
            if (a->state[h * a->ld + s] == LH_ENTRY_COMPETES) *y = lh_defended(*y, norm, sums, count, a->raise);
        }
    }
    return LH_OK;
}

lh_status lh_ref_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t j = 0; j < a->cols; j++) a->y[h * a->y_ld + j] = lh_reduced(a, h, j);
    }
    return LH_OK;
}

lh_status lh_ref_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    const int64_t heads = a->kv->heads;
    (void)stream;
    for (int64_t b = 0; b < a->batch; b++) {
        float top = 0.0f;
        for (int64_t h = 0; h < heads; h++) {
            const uint8_t *state = a->state + (b * heads + h) * a->ld;
            const float *scores = a->scores + b * a->scores_step + h * a->ld;
            for (int64_t s = 0; s < a->kv[b].len[h]; s++)
                if (state[s] == LH_ENTRY_COMPETES) top = fmaxf(top, fabsf(scores[s]));
        }
        a->y[b] = top;
    }
    return LH_OK;
}

/* ---- operations on slots (slotwise.h): head after head ---- */

#define LH_SLOTWISE(op, rows, cols, cost)                                                          \
    lh_status lh_ref_##op(lh_stream *stream, const lh_##op##_args *a)                              \
    {                                                                                              \
        (void)stream;                                                                              \
        for (int64_t h = 0; h < (rows); h++) lh_##op##_slots(a, h, (lh_slot_range){0, (cols), 1}); \
        return LH_OK;                                                                              \
    }
#define LH_SLOTWISE_KV(op, cost) LH_SLOTWISE(op, a->kv->heads, a->ld, cost)
LH_SLOTWISE_OPS(LH_SLOTWISE, LH_SLOTWISE_KV)
LH_SLOTWISE(classify, (a->batch * a->kv->heads), a->ld, 1)
LH_SLOTWISE(add_heads, a->batch, a->cols, 4)
LH_SLOTWISE(sum_shards, 1, a->count, a->shards + 1)
LH_SLOTWISE_KV(gumbel_scores, 16)

/* ---- LagKV: entries of a part relative to the keys and values of the next part ---- */
/* A part of a head with a next part, slots [at, at + lag), and its workspace. */
typedef struct lag_part {
    const lh_ragged *kv;
    int64_t h, at, lag;
    double *least, *most;   /* [head_dim] of the next part's keys or values */
    double *deviations, *e; /* [lag] */
} lag_part;

/* Channel i of the n-th entry from the part's first one on. */
static double channel(const lag_part *p, const void *numbers, int64_t n, int64_t i)
{
    return ref_load(numbers, p->kv->type, (p->kv->offset[p->h] + p->at + n) * p->kv->head_dim + i);
}

static void find_ranges(const lag_part *p, const void *numbers)
{
    for (int64_t i = 0; i < p->kv->head_dim; i++) {
        p->least[i] = INFINITY;
        p->most[i] = -INFINITY;
        for (int64_t n = p->lag; n < 2 * p->lag; n++) {
            p->least[i] = fmin(p->least[i], channel(p, numbers, n, i));
            p->most[i] = fmax(p->most[i], channel(p, numbers, n, i));
        }
    }
}

static double scaled(const lag_part *p, const void *numbers, int64_t n, int64_t i)
{
    double range = p->most[i] - p->least[i];
    return range > 0.0 ? (channel(p, numbers, n, i) - p->least[i]) / range : 0.0;
}

static double deviation(const lag_part *p, const void *numbers, int64_t n)
{
    int64_t d = p->kv->head_dim;
    double mean = 0.0, squares = 0.0;
    for (int64_t i = 0; i < d; i++) mean += scaled(p, numbers, n, i) / (double)d;
    for (int64_t i = 0; i < d; i++) {
        double x = scaled(p, numbers, n, i) - mean;
        squares += x * x;
    }
    return d > 1 ? sqrt(squares / (double)(d - 1)) : 0.0;
}

/* e += half of the softmax of the deviations. */
static void add_softmax(const lag_part *p, const void *numbers)
{
    double top = 0.0, sum = 0.0;
    find_ranges(p, numbers);
    for (int64_t n = 0; n < p->lag; n++) {
        p->deviations[n] = deviation(p, numbers, n);
        top = fmax(top, p->deviations[n]);
    }
    for (int64_t n = 0; n < p->lag; n++) sum += exp(p->deviations[n] - top);
    for (int64_t n = 0; n < p->lag; n++) p->e[n] += exp(p->deviations[n] - top) / sum / 2.0;
}

static void rank_part(const lag_part *p, float *y)
{
    for (int64_t n = 0; n < p->lag; n++) p->e[n] = 0.0;
    add_softmax(p, p->kv->k);
    add_softmax(p, p->kv->v);
    for (int64_t n = 0; n < p->lag; n++) {
        int64_t below = 0;
        for (int64_t m = 0; m < p->lag; m++) below += p->e[m] < p->e[n] || (m > n && p->e[m] == p->e[n]);
        y[p->at + n] = (float)((double)below / (double)p->lag);
    }
}

lh_status lh_ref_lag_scores(lh_stream *stream, const lh_lag_scores_args *a)
{
    int64_t d = a->kv->head_dim, lag = a->lag, most = lh_min_i64(lag, a->ld); /* longer parts have no next part */
    double *room = NULL;
    LH_TRY(lh_stream_scratch(stream, &room, 2 * (d + most) * (int64_t)sizeof *room));
    for (int64_t h = 0; h < a->kv->heads; h++) {
        int64_t len = a->kv->len[h], end = lh_lag_end(len, a->first, lag);
        float *y = a->y + h * a->ld;
        for (int64_t at = a->first; at < end; at += lag)
            rank_part(&(lag_part){a->kv, h, at, lag, room, room + d, room + 2 * d, room + 2 * d + lag}, y);
        for (int64_t s = 0; s < len; s++)
            if (s < a->first || s >= end) y[s] = lh_lag_rest(s, a->first, end, len);
    }
    return LH_OK;
}

/* ---- expected attention: the softmax of the mean logits of normally distributed queries ---- */
static double expected_logit(const lh_expected_scores_args *a, int64_t i, int64_t h, int64_t s)
{
    int64_t d = a->kv->head_dim, at = (a->kv->offset[h] + s) * d;
    const float *mean = a->means + i * d, *covariance = a->covariances + i * d * d;
    double dot = 0.0, form = 0.0;
    for (int64_t x = 0; x < d; x++) {
        double k = ref_load(a->kv->k, a->kv->type, at + x), row = 0.0;
        for (int64_t y = 0; y < d; y++) row += (double)covariance[x * d + y] * ref_load(a->kv->k, a->kv->type, at + y);
        dot += mean[x] * k;
        form += k * row;
    }
    return a->scale * dot + 0.5 * a->scale * a->scale * form + ref_bias(a->kv, h, s);
}

lh_status lh_ref_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->map.heads; i++) {
        int64_t h = (a->map.first + i) / a->map.group, len = a->kv->len[h];
        const uint8_t *state = a->state + h * a->ld;
        float *y = a->y + i * a->ld;
        double row_max = -INFINITY, denominator = 0.0;
        for (int64_t s = 0; s < len; s++)
            if (state[s] == LH_ENTRY_COMPETES) row_max = fmax(row_max, expected_logit(a, i, h, s));
        for (int64_t s = 0; s < len; s++)
            if (state[s] == LH_ENTRY_COMPETES) denominator += exp(expected_logit(a, i, h, s) - row_max);
        for (int64_t s = 0; s < len; s++)
            y[s] =
                state[s] == LH_ENTRY_COMPETES ? (float)(exp(expected_logit(a, i, h, s) - row_max) / denominator) : 0.0f;
    }
    return LH_OK;
}

/* ---- sums of rows and of their outer products ---- */
lh_status lh_ref_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->heads; i++)
        for (int64_t x = 0; x < a->dim; x++) {
            int64_t at = i * a->dim + x;
            double sum = 0.0;
            for (int64_t r = 0; r < a->rows; r++) sum += ref_load(a->x, a->type, r * a->x_ld + at);
            if (a->sums) a->sums[at] += sum;
            for (int64_t y = 0; y < a->dim; y++) {
                double product = 0.0;
                for (int64_t r = 0; r < a->rows; r++)
                    product += ref_load(a->x, a->type, r * a->x_ld + at) *
                               ref_load(a->x, a->type, r * a->x_ld + i * a->dim + y);
                a->products[at * a->dim + y] += product;
            }
        }
    return LH_OK;
}
