/* Fitting biases and values to the attention of query rows. */
#include "kernels/ref/attend.h"

/* The weight of row r of head i, from q.k with the entry in a slot. */
static double row_weight(const lh_row_weights_args *a, int64_t r, int64_t i, int64_t slot, double product)
{
    const lh_observed *o = &a->rows;
    lh_visible_range visible = lh_visible_range_of(o->positions, o->until, o->logit.window, r);
    double lse = a->lse[r * a->lse_ld + i], s = o->logit.scale * product;
    if (lse == -INFINITY || !lh_sees(visible, (int32_t)lh_position(o->kv, 0, slot))) return 0.0;
    if (o->logit.softcap > 0) s = o->logit.softcap * tanh(s / o->logit.softcap);
    const double weight = exp((o->gains ? o->gains[r] : 1.0) * s + ref_bias(o->kv, 0, slot) - lse);
    return a->most > 0 && weight > a->most ? 0.0 : weight;
}

lh_status lh_ref_row_weights(lh_stream *stream, const lh_row_weights_args *a)
{
    int64_t rows = a->rows.rows;
    (void)stream;
    for (int64_t n = 0; n < a->rows.map.heads * rows; n++) {
        int64_t i = n / rows, r = n % rows;
        double sum = 0.0;
        for (int64_t s = 0; s < a->cols; s++) {
            float *x = a->x + n * a->ld + s;
            double weight = row_weight(a, r, i, a->first + s, *x);
            sum += weight;
            *x = (float)weight;
        }
        if (a->missing) a->missing[n] = a->lse[r * a->lse_ld + i] == -INFINITY ? 0.0f : (float)(1.0 - sum);
    }
    return LH_OK;
}

lh_status lh_ref_normalise_rows(lh_stream *stream, const lh_normalise_rows_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++) {
        float *x = a->x + r * a->ld;
        double sum = 0.0;
        for (int64_t c = 0; c < a->cols; c++) sum += (double)x[c] * (a->factors ? a->factors[c] : 1.0);
        for (int64_t c = 0; c < a->cols; c++)
            x[c] = sum != 0 ? (float)(x[c] * (a->factors ? a->factors[c] : 1.0) / sum) : 0.0f;
    }
    return LH_OK;
}

lh_status lh_ref_transpose(lh_stream *stream, const lh_transpose_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++)
            ref_store(a->y, a->y_type, c * a->y_ld + r, a->factor * ref_load(a->x, a->x_type, r * a->x_ld + c));
    return LH_OK;
}

/* ---- conjugate gradients ---- */

static double quotient(double x, double y)
{
    return y > 0 ? x / y : 0.0;
}

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * y[i];
    return sum;
}

/* The next search direction. */
static void turn(const lh_conjugate_gradients_args *a, int64_t i, double t)
{
    float *energy = a->energy + 2 * i, *r = a->r + i * a->cols, *p = a->p + i * a->cols;
    double now = 0.0;
    for (int64_t c = 0; c < a->cols; c++) now += quotient(1, a->diagonal[c] + t) * r[c] * r[c];
    if (!a->products) energy[1] = (float)now;
    int is_left = now > LH_CONJUGATE_END * energy[1];
    for (int64_t c = 0; c < a->cols; c++) {
        double along = a->products ? quotient(now, energy[0]) * p[c] : 0.0;
        p[c] = is_left ? (float)(quotient(1, a->diagonal[c] + t) * r[c] + along) : 0.0f;
    }
    energy[0] = is_left ? (float)now : 0.0f;
}

lh_status lh_ref_conjugate_gradients(lh_stream *stream, const lh_conjugate_gradients_args *a)
{
    double t = 0.0;
    (void)stream;
    for (int64_t c = 0; c < a->cols; c++) t += a->ridge * (double)a->diagonal[c] / (double)a->cols;
    for (int64_t i = 0; i < a->rows; i++) {
        float *x = a->x + i * a->cols, *r = a->r + i * a->cols, *p = a->p + i * a->cols;
        if (a->products) {
            const float *ap = a->products + i * a->n, *back = a->back + i * a->cols;
            double step = quotient(a->energy[2 * i], dot(ap, ap, a->n) + t * dot(p, p, a->cols));
            for (int64_t c = 0; c < a->cols; c++) {
                x[c] = (float)fmin(fmax(x[c] + step * p[c], a->low), a->high);
                r[c] = (float)(r[c] - step * (back[c] + t * p[c]));
            }
        }
        turn(a, i, t);
    }
    return LH_OK;
}

lh_status lh_ref_mass_bias(lh_stream *stream, const lh_mass_bias_args *a)
{
    double step = quotient(dot(a->products, a->missing, a->n), dot(a->products, a->products, a->n));
    (void)stream;
    step = fmin(fmax(step, 0.0), 1.0);
    for (int64_t c = 0; c < a->cols; c++) {
        a->factors[c] = (float)(1.0 + step * a->x[c]);
        a->bias[c] = (float)log1p(step * a->x[c]);
    }
    return LH_OK;
}

/* ---- losses by the number of kept entries ---- */

/* Number x of the output of row r over stretches 0 to p. */
static double output_of(const lh_curve_losses_args *a, int64_t p, int64_t x, int64_t r)
{
    double values = 0.0, weights = 0.0;
    for (int64_t q = 0; q <= p; q++) {
        const float *sums = a->sums + q * (a->dim + 1) * a->n + r;
        values += sums[x * a->n];
        weights += sums[a->dim * a->n];
    }
    return quotient(values, weights);
}

lh_status lh_ref_curve_losses(lh_stream *stream, const lh_curve_losses_args *a)
{
    const int64_t last = a->points - 1;
    double energy = 0.0;
    (void)stream;
    for (int64_t x = 0; x < a->dim; x++)
        for (int64_t r = 0; r < a->n; r++) energy += output_of(a, last, x, r) * output_of(a, last, x, r);
    *a->energy = (float)energy;
    for (int64_t p = 0; p < a->points; p++) {
        double loss = 0.0;
        for (int64_t x = 0; x < a->dim; x++)
            for (int64_t r = 0; r < a->n; r++) {
                double lost = output_of(a, p, x, r) - output_of(a, last, x, r);
                loss += lost * lost;
            }
        a->losses[p] = (float)loss;
    }
    return LH_OK;
}

/* ---- errors without an entry ---- */

/* |v - o'|^2 of the entry in slot s and the other entries of row i. */
static double distance_to_rest(const lh_output_errors_args *a, int64_t i, int64_t s)
{
    const double mass = a->rest[a->dim * a->n + i];
    double sum = 0.0;
    for (int64_t x = 0; x < a->dim && mass > 0; x++) {
        double off = a->values[s * a->dim + x] - a->rest[x * a->n + i] / mass;
        sum += off * off;
    }
    return sum;
}

static double output_error(const lh_output_errors_args *a, int64_t i, int64_t s)
{
    const double mass = a->masses[i], p = quotient(a->weights[i * a->ld + s], mass), rate = p / (1.0 - p);
    if (a->weights[i * a->ld + s] > LH_DOMINANT) return p * p * distance_to_rest(a, i, s);
    return rate * rate *
           fmax(0.0, a->squares[s] - 2.0 * quotient(a->products[i * a->ld + s], mass) +
                         quotient(quotient(a->energies[i], mass), mass));
}

lh_status lh_ref_output_errors(lh_stream *stream, const lh_output_errors_args *a)
{
    (void)stream;
    for (int64_t s = 0; s < a->cols; s++) {
        double sum = 0.0;
        for (int64_t i = 0; i < a->n; i++) sum += output_error(a, i, s);
        a->errors[s] += (float)sum;
    }
    return LH_OK;
}
