/* Fitting biases and values to the attention of query rows: rows are divided among threads. Most of the time goes to
 * the gemms between these operations. */
#include "kernels/cpu/common.h"

/* Positions of the slots, padded to vectors with -1, which no row sees. */
static void fit_positions(const lh_row_weights_args *a, int32_t *at)
{
    const int32_t *stored = lh_positions_of(a->rows.kv, 0);
    for (int64_t s = 0; s < round_up(a->cols, VL); s++)
        at[s] = s >= a->cols ? -1 : stored ? stored[a->first + s] : (int32_t)(a->first + s);
}

/* Row r of query head i. */
static void weigh_fit_row(const lh_row_weights_args *a, int64_t r, int64_t i, const int32_t *at)
{
    const lh_observed *o = &a->rows;
    const lh_visible_range visible = lh_visible_range_of(o->positions, o->until, o->logit.window, r);
    const float lse = a->lse[r * a->lse_ld + i], cap = o->logit.softcap, gain = o->gains ? o->gains[r] : 1.0f;
    const vf scale = vf_set1(cap > 0 ? o->logit.scale / cap : o->logit.scale), shift = vf_set1(-lse),
             most = vf_set1(a->most > 0 ? a->most : INFINITY);
    const float *bias = o->kv->bias ? o->kv->bias + o->kv->offset[0] + a->first : NULL;
    float *x = a->x + (i * o->rows + r) * a->ld;
    vf sum = vf_zero();
    for (int64_t s = 0; s < a->cols; s += VL) {
        vi position = vi_load(at + s);
        vm seen = vm_and(vi_gt(position, vi_set1(visible.before)), vm_not(vi_gt(position, vi_set1(visible.last))));
        vf logit = scale * vf_load_first(x + s, a->cols - s);
        if (cap > 0) logit = vf_set1(cap) * vf_tanh(logit);
        vf weight = vf_fma(vf_set1(gain), logit, shift);
        if (bias) weight = weight + vf_load_first(bias + s, a->cols - s);
        weight = vf_exp(weight);
        weight = lse == -INFINITY ? vf_zero() : vf_where(seen, weight, vf_zero());
        weight = vf_where(vf_lt(most, weight), vf_zero(), weight);
        vf_store_first(x + s, weight, a->cols - s);
        sum = sum + weight;
    }
    if (a->missing) a->missing[i * o->rows + r] = lse == -INFINITY ? 0.0f : 1.0f - vf_sum(sum);
}

static lh_status op_row_weights(lh_stream *stream, const lh_row_weights_args *a)
{
    int64_t rows = a->rows.rows, all = rows * a->rows.map.heads;
    int32_t *at = NULL;
    if (all == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &at, round_up(a->cols + 1, VL) * (int64_t)sizeof *at));
    fit_positions(a, at);
#pragma omp parallel for if (all * a->cols >= PARALLEL_FROM / 4)
    for (int64_t n = 0; n < all; n++) weigh_fit_row(a, n % rows, n / rows, at);
    return LH_OK;
}

static void share_fit_row(const lh_normalise_rows_args *a, float *x)
{
    const vf one = vf_set1(1.0f);
    vf sum = vf_zero();
    for (int64_t c = 0; c < a->cols; c += VL) {
        int64_t n = a->cols - c;
        vf y = vf_load_first(x + c, n) * (a->factors ? vf_load_first(a->factors + c, n) : one);
        vf_store_first(x + c, y, n);
        sum = sum + y;
    }
    const float all = vf_sum(sum);
    if (all == 0) memset(x, 0, (size_t)a->cols * sizeof *x);
    for (int64_t c = 0; c < a->cols && all != 0; c += VL)
        vf_store_first(x + c, vf_load_first(x + c, a->cols - c) / vf_set1(all), a->cols - c);
}

static lh_status op_normalise_rows(lh_stream *stream, const lh_normalise_rows_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM / 2)
    for (int64_t r = 0; r < a->rows; r++) share_fit_row(a, a->x + r * a->ld);
    return LH_OK;
}

/* Transposes VL rows from r on. */
static void transpose_rows(const lh_transpose_args *a, int64_t r)
{
    const vf factor = vf_set1(a->factor);
    const int64_t rows = lh_min_i64(a->rows - r, VL);
    for (int64_t c = 0; c < a->cols; c += VL) {
        int64_t cols = lh_min_i64(a->cols - c, VL);
        vf x[VL];
        for (int64_t i = 0; i < VL; i++)
            x[i] = i < rows ? vf_load_any_first(a->x, a->x_type, (r + i) * a->x_ld + c, cols) : vf_zero();
        vf_transpose(x);
        for (int64_t j = 0; j < cols; j++)
            vf_store_any_first(a->y, a->y_type, (c + j) * a->y_ld + r, factor * x[j], rows);
    }
}

static lh_status op_transpose(lh_stream *stream, const lh_transpose_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM)
    for (int64_t r = 0; r < a->rows; r += VL) transpose_rows(a, r);
    return LH_OK;
}

/* ---- conjugate gradients ---- */

static inline float quotient_of(float x, float y)
{
    return y > 0 ? x / y : 0.0f;
}

static float fit_dot(const float *x, const float *y, int64_t n)
{
    vf s0 = vf_zero(), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        s0 = vf_fma(vf_load(x + i), vf_load(y + i), s0);
        s1 = vf_fma(vf_load(x + i + VL), vf_load(y + i + VL), s1);
        s2 = vf_fma(vf_load(x + i + 2 * VL), vf_load(y + i + 2 * VL), s2);
        s3 = vf_fma(vf_load(x + i + 3 * VL), vf_load(y + i + 3 * VL), s3);
    }
    for (; i < n; i += VL) s0 = vf_fma(vf_load_first(x + i, n - i), vf_load_first(y + i, n - i), s0);
    return vf_sum((s0 + s1) + (s2 + s3));
}

/* Updates x and r of problem i by a step. */
static void advance(const lh_conjugate_gradients_args *a, int64_t i, float t)
{
    const float *p = a->p + i * a->cols, *ap = a->products + i * a->n, *back = a->back + i * a->cols;
    const vf step = vf_set1(quotient_of(a->energy[2 * i], fit_dot(ap, ap, a->n) + t * fit_dot(p, p, a->cols)));
    const vf low = vf_set1(a->low), high = vf_set1(a->high);
    float *x = a->x + i * a->cols, *r = a->r + i * a->cols;
    for (int64_t c = 0; c < a->cols; c += VL) {
        int64_t n = a->cols - c;
        vf along = vf_load_first(p + c, n), gradient = vf_fma(vf_set1(t), along, vf_load_first(back + c, n));
        vf_store_first(x + c, vf_min(high, vf_max(low, vf_fma(step, along, vf_load_first(x + c, n)))), n);
        vf_store_first(r + c, vf_load_first(r + c, n) - step * gradient, n);
    }
}

/* The next direction of problem i. inverse: [cols] w. */
static void turn_direction(const lh_conjugate_gradients_args *a, int64_t i, const float *inverse)
{
    const float *r = a->r + i * a->cols;
    float *p = a->p + i * a->cols, *energy = a->energy + 2 * i;
    vf sum = vf_zero();
    for (int64_t c = 0; c < a->cols; c += VL) {
        vf x = vf_load_first(r + c, a->cols - c);
        sum = vf_fma(vf_load_first(inverse + c, a->cols - c) * x, x, sum);
    }
    const float now = vf_sum(sum);
    if (!a->products) energy[1] = now;
    const int is_left = now > LH_CONJUGATE_END * energy[1];
    const vf keep = vf_set1(a->products ? quotient_of(now, energy[0]) : 0.0f);
    energy[0] = is_left ? now : 0.0f;
    if (!is_left) memset(p, 0, (size_t)a->cols * sizeof *p);
    if (!is_left) return;
    for (int64_t c = 0; c < a->cols; c += VL) {
        int64_t n = a->cols - c;
        vf y = vf_load_first(inverse + c, n) * vf_load_first(r + c, n);
        vf_store_first(p + c, a->products ? vf_fma(keep, vf_load_first(p + c, n), y) : y, n);
    }
}

static lh_status op_conjugate_gradients(lh_stream *stream, const lh_conjugate_gradients_args *a)
{
    float *inverse = NULL;
    double sum = 0.0;
    if (a->rows == 0 || a->cols == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &inverse, a->cols * (int64_t)sizeof *inverse));
    for (int64_t c = 0; c < a->cols; c++) sum += a->diagonal[c];
    const float t = (float)(a->ridge * sum / (double)a->cols);
    for (int64_t c = 0; c < a->cols; c++) inverse[c] = quotient_of(1.0f, a->diagonal[c] + t);
#pragma omp parallel for if (a->rows > 1 && a->rows * (a->cols + a->n) >= PARALLEL_FROM / 2)
    for (int64_t i = 0; i < a->rows; i++) {
        if (a->products) advance(a, i, t);
        turn_direction(a, i, inverse);
    }
    return LH_OK;
}

static lh_status op_mass_bias(lh_stream *stream, const lh_mass_bias_args *a)
{
    float step = quotient_of(fit_dot(a->products, a->missing, a->n), fit_dot(a->products, a->products, a->n));
    (void)stream;
    step = step > 0 ? fminf(step, 1.0f) : 0.0f;
    for (int64_t c = 0; c < a->cols; c++) {
        a->factors[c] = 1.0f + step * a->x[c];
        a->bias[c] = log1pf(step * a->x[c]);
    }
    return LH_OK;
}

/* ---- losses by the number of kept entries ---- */

static inline vf vf_quotient(vf x, vf y)
{
    return vf_where(vf_lt(vf_zero(), y), x / y, vf_zero());
}

/* y[0 .. n - 1] += x. */
static void add_stretch(float *y, const float *x, int64_t n)
{
    for (int64_t r = 0; r < n; r += VL)
        vf_store_first(y + r, vf_load_first(y + r, n - r) + vf_load_first(x + r, n - r), n - r);
}

/* masses[p, r]: the sum of the weights of row r over stretches 0 to p. */
static void add_masses(const lh_curve_losses_args *a, float *masses)
{
    for (int64_t p = 0; p < a->points; p++) {
        float *mass = masses + p * a->n;
        memset(mass, 0, (size_t)a->n * sizeof *mass);
        if (p > 0) memcpy(mass, mass - a->n, (size_t)a->n * sizeof *mass);
        add_stretch(mass, a->sums + (p * (a->dim + 1) + a->dim) * a->n, a->n);
    }
}

/* The contribution of number x of the outputs to the losses and, after these, to the energy: parts [points + 1]. room:
 * [2, n]. Outputs are quotients, not products with 1 / mass, which would be fused with the difference, and that must be
 * 0 at the end. */
static void lose_number(const lh_curve_losses_args *a, int64_t x, const float *masses, float *room, double *parts)
{
    const int64_t n = a->n, step = (a->dim + 1) * n;
    const float *stretch = a->sums + x * n;
    float *sum = room, *last = room + n;
    vf squares = vf_zero();
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t p = 0; p < a->points; p++) add_stretch(sum, stretch + p * step, n);
    for (int64_t r = 0; r < n; r += VL) {
        vf mass = vf_load_first(masses + (a->points - 1) * n + r, n - r);
        vf output = vf_quotient(vf_load_first(sum + r, n - r), mass);
        vf_store_first(last + r, output, n - r);
        squares = vf_fma(output, output, squares);
    }
    parts[a->points] = vf_sum(squares);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t p = 0; p < a->points; p++) {
        squares = vf_zero();
        add_stretch(sum, stretch + p * step, n);
        for (int64_t r = 0; r < n; r += VL) {
            vf output = vf_quotient(vf_load_first(sum + r, n - r), vf_load_first(masses + p * n + r, n - r));
            vf lost = output - vf_load_first(last + r, n - r);
            squares = vf_fma(lost, lost, squares);
        }
        parts[p] = vf_sum(squares);
    }
}

static lh_status op_curve_losses(lh_stream *stream, const lh_curve_losses_args *a)
{
    const int64_t all = a->points + 1, masses = a->points * a->n, rooms = omp_get_max_threads() * 2 * a->n;
    double *parts = NULL;
    *a->energy = 0.0f;
    if (a->points == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &parts,
                             a->dim * all * (int64_t)sizeof *parts + (masses + rooms) * (int64_t)sizeof(float)));
    float *mass = (float *)(parts + a->dim * all), *room = mass + masses;
    add_masses(a, mass);
#pragma omp parallel for if (masses * a->dim >= PARALLEL_FROM)
    for (int64_t x = 0; x < a->dim; x++)
        lose_number(a, x, mass, room + omp_get_thread_num() * 2 * a->n, parts + x * all);
    for (int64_t p = 0; p < all; p++) {
        double sum = 0.0;
        for (int64_t x = 0; x < a->dim; x++) sum += parts[x * all + p];
        *(p < a->points ? a->losses + p : a->energy) = (float)sum;
    }
    return LH_OK;
}

/* ---- errors without an entry ---- */

enum { ERROR_SLOTS = 64 }; /* slots of a thread: whole cache lines of every row */

/* Adds the terms of dominant weights; a row has at most one. */
static void add_dominant_errors(const lh_output_errors_args *a, int64_t i, int64_t first, int64_t count)
{
    const float mass = a->rest[a->dim * a->n + i];
    for (int64_t s = first; s < first + count; s++) {
        float weight = a->weights[i * a->ld + s], sum = 0.0f;
        if (!(weight > LH_DOMINANT)) continue;
        for (int64_t x = 0; x < a->dim && mass > 0; x++) {
            float off = a->values[s * a->dim + x] - a->rest[x * a->n + i] / mass;
            sum += off * off;
        }
        weight = quotient_of(weight, a->masses[i]);
        a->errors[s] += weight * weight * sum;
    }
}

/* Adds the terms of VL slots from s on; returns 1 if some weight is dominant. */
static int add_output_errors(const lh_output_errors_args *a, int64_t s, int64_t count)
{
    const vf one = vf_set1(1.0f), top = vf_set1(LH_DOMINANT), squares = vf_load_first(a->squares + s, count);
    vf sum = vf_zero();
    int dominant = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float share = quotient_of(1.0f, a->masses[i]);
        const vf weight = vf_load_first(a->weights + i * a->ld + s, count);
        const vm above = vf_lt(top, weight);
        const vf p = vf_set1(share) * weight, rate = vf_where(above, vf_zero(), p / (one - p));
        vf off = vf_fma(vf_set1(-2.0f * share), vf_load_first(a->products + i * a->ld + s, count), squares);
        off = vf_max(vf_zero(), off + vf_set1(a->energies[i] * share * share));
        sum = vf_fma(rate * rate, off, sum);
        dominant |= vm_any(above);
    }
    vf_store_first(a->errors + s, vf_load_first(a->errors + s, count) + sum, count);
    return dominant;
}

static lh_status op_output_errors(lh_stream *stream, const lh_output_errors_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->n * a->cols >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->cols; first += ERROR_SLOTS) {
        const int64_t end = lh_min_i64(a->cols, first + ERROR_SLOTS);
        int dominant = 0;
        for (int64_t s = first; s < end; s += VL) dominant |= add_output_errors(a, s, lh_min_i64(end - s, VL));
        for (int64_t i = 0; i < a->n && dominant; i++) add_dominant_errors(a, i, first, end - first);
    }
    return LH_OK;
}
