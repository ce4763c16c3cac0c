/* LagKV: entries of a part of the text, beside what keys and values of the next part are. */
#include <math.h>

#include "base/minmax.h"
#include "kernels/ref/ref.h"

/* A part of a head that has a next one, slots [at, at + lag), and memory for it. */
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
    int64_t d = a->kv->head_dim, lag = a->lag, most = lh_min_i64(lag, a->ld); /* longer parts have no next one */
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
