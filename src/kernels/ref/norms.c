/* Norms of keys and values, scores from keys and values, norms of projected values. */
#define LH_IN_DOUBLE
#include <math.h>

#include "kernels/elementwise.h"
#include "kernels/ref/ref.h"

static double load_entry(const lh_ragged *kv, const void *part, int64_t h, int64_t s, int64_t i)
{
    return ref_load(part, kv->type, (kv->offset[h] + s) * kv->head_dim + i);
}

static double sum_of_squares(const lh_ragged *kv, const void *part, int64_t h, int64_t s)
{
    double sum = 0.0;
    for (int64_t i = 0; i < kv->head_dim; i++) {
        double x = load_entry(kv, part, h, s, i);
        sum += x * x;
    }
    return sum;
}

lh_status lh_ref_entry_norms(lh_stream *stream, const lh_entry_norms_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        for (int64_t s = lh_slot_of_last(a->kv->len[h], a->last); s < a->kv->len[h]; s++) {
            double squares = sum_of_squares(a->kv, a->part == LH_PART_KEY ? a->kv->k : a->kv->v, h, s);
            double norm = a->kind == LH_NORM_SQUARE ? squares : sqrt(squares);
            *lh_slot_at(&a->y, h, s, 0) = (float)(a->kind == LH_NORM_MINUS_L2 ? -norm : norm);
        }
    }
    return LH_OK;
}

/* Norms are at least this, so that a key of zeros does not divide by zero. */
static double norm_of(double squares)
{
    return fmax(sqrt(squares), 1e-8);
}

lh_status lh_ref_key_difference(lh_stream *stream, const lh_key_difference_args *a)
{
    const lh_ragged *kv = a->kv;
    double *mean = NULL;
    LH_TRY(lh_stream_scratch(stream, &mean, kv->head_dim * (int64_t)sizeof *mean));
    for (int64_t h = 0; h < kv->heads; h++) {
        double squares = 0.0;
        for (int64_t i = 0; i < kv->head_dim; i++) mean[i] = 0.0;
        for (int64_t s = 0; s < kv->len[h]; s++) {
            double norm = norm_of(sum_of_squares(kv, kv->k, h, s));
            for (int64_t i = 0; i < kv->head_dim; i++) mean[i] += load_entry(kv, kv->k, h, s, i) / norm;
        }
        for (int64_t i = 0; i < kv->head_dim; i++) {
            mean[i] /= (double)kv->len[h];
            squares += mean[i] * mean[i];
        }
        for (int64_t s = 0; s < kv->len[h]; s++) {
            double dot = 0.0;
            for (int64_t i = 0; i < kv->head_dim; i++) dot += load_entry(kv, kv->k, h, s, i) * mean[i];
            double norms = norm_of(sum_of_squares(kv, kv->k, h, s)) * norm_of(squares);
            a->y[h * a->ld + s] = (float)(-dot / norms);
        }
    }
    return LH_OK;
}

/* k: workspace for the key of slot s of head h, rotated back. */
static double linear_score(const lh_linear_scores_args *a, int64_t h, int64_t s, double *k)
{
    const lh_ragged *kv = a->kv;
    const int64_t d = kv->head_dim, half = a->rotary / 2;
    const int32_t *positions = lh_positions_of(kv, h), position = positions ? positions[s] : (int32_t)s;
    const float *w = a->w + h * a->w_ld;
    double keys = 0, values = 0, sum = w[4 * d + 2];
    for (int64_t i = 0; i < d; i++) k[i] = load_entry(kv, kv->k, h, s, i);
    for (int64_t i = 0; i < half; i++) {
        const float angle = (float)position * a->inv_freq[i];
        const double c = cos(angle) / a->scale, t = sin(angle) / a->scale, low = k[i], high = k[i + half];
        k[i] = low * c + high * t;
        k[i + half] = high * c - low * t;
    }
    for (int64_t i = 0; i < d; i++) {
        const double v = load_entry(kv, kv->v, h, s, i);
        sum += k[i] * (w[i] + w[2 * d + i] * k[i]) + v * (w[d + i] + w[3 * d + i] * v);
        keys += k[i] * k[i];
        values += v * v;
    }
    return sum + w[4 * d] * lh_log_length(keys) + w[4 * d + 1] * lh_log_length(values);
}

lh_status lh_ref_linear_scores(lh_stream *stream, const lh_linear_scores_args *a)
{
    double *k = NULL;
    LH_TRY(lh_stream_scratch(stream, &k, a->kv->head_dim * (int64_t)sizeof *k));
    for (int64_t h = 0; h < a->kv->heads; h++)
        for (int64_t s = 0; s < a->kv->len[h]; s++) a->y[h * a->ld + s] = (float)linear_score(a, h, s, k);
    return LH_OK;
}

/* L1 norm of the value of slot s of head h after the projection of query head i. */
static double projected_norm(const lh_projected_norms_args *a, int64_t h, int64_t s, int64_t i)
{
    int64_t at = (a->kv->offset[h] + s) * a->kv->head_dim;
    double norm = 0.0;
    for (int64_t o = 0; o < a->out; o++) {
        double sum = 0.0;
        for (int64_t d = 0; d < a->kv->head_dim; d++)
            sum += ref_load(a->kv->v, a->kv->type, at + d) *
                   ref_load(a->w, a->type, o * a->w_ld + i * a->kv->head_dim + d);
        norm += fabs(sum);
    }
    return norm;
}

lh_status lh_ref_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->map.heads; i++) {
        int64_t h = (a->map.first + i) / a->map.group;
        int64_t len = a->kv->len[h], first = lh_slot_of_last(len, a->last);
        for (int64_t s = first; s < len; s++) a->y[i * a->ld + s - first] = (float)projected_norm(a, h, s, i);
    }
    return LH_OK;
}
