#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

enum { ROWS, COLS, GROUP, GAP, ORDER, WINDOW, CAP, UNTIL, GAIN, BIAS, FROM, TO, FACTORS, DEPTH, RIDGE };
static const dimension kinds[] = {
    [ROWS] = {"rows", 6, {0, 1, 2, 5, 17, 33}},
    [COLS] = {"columns", 8, {0, 1, 3, 16, 31, 64, 129, 300}},
    [GROUP] = {"group", 4, {1, 2, 3, 4}},
    [GAP] = {"gap between rows", 3, {0, 1, 4}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [WINDOW] = {"window", 3, {0, 0, 40}},
    [CAP] = {"soft cap", 3, {0, 0, 3}},
    [UNTIL] = {"rows see", 2, {0, 1}, {"until themselves", "all"}},
    [GAIN] = {"gains", 2, {0, 1}, {"none", "some"}},
    [BIAS] = {"biases", 2, {0, 1}, {"none", "some"}},
    [FROM] = {"from", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [TO] = {"to", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [FACTORS] = {"factors", 2, {0, 1}, {"none", "some"}},
    [DEPTH] = {"rows of the matrix", 5, {1, 3, 20, 65, 200}},
    [RIDGE] = {"thousandths of the ridge", 3, {0, 10, 1000}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Every backend, `ref` too, on `cases` cases. */
static void on_all_backends(int cases, void (*one)(rig *g, lot *m, int n))
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < cases / rig_scale(&g); n++) {
            lot m = {0};
            one(&g, &m, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}

/* ---- row_weights ---- */

static double logit_of(const lh_observed *o, int64_t r, int64_t slot, double product)
{
    double s = o->logit.scale * product;
    if (o->logit.softcap > 0) s = o->logit.softcap * tanh(s / o->logit.softcap);
    return (o->gains ? o->gains[r] : 1.0) * s + (o->kv->bias ? o->kv->bias[slot] : 0.0);
}

/* The weight, 0 where it is above `most`. Rounding does not decide: a product that is close is another. */
static double bounded_weight(const lh_observed *o, int64_t r, int64_t slot, float *product, double shift, double most)
{
    double weight = exp(logit_of(o, r, slot, *product) - shift);
    if (fabs(weight - most) < 1e-4 * most) *product -= 1;
    weight = exp(logit_of(o, r, slot, *product) - shift);
    return most > 0 && weight > most ? 0 : weight;
}

static void weigh_rows(rig *g, lot *m, int n)
{
    const float most = n % 3 == 1 ? 0.1f : 0.0f;
    const int64_t rows = kind(ROWS, n), cols = kind(COLS, n), group = kind(GROUP, n), ld = cols + kind(GAP, n);
    const int64_t first = n % 3, len = first + cols + n % 2, seen = 2 * len + 10, all = rows * group;
    cache c;
    cache_make(m, &c,
               &(cache_spec){.heads = 1,
                             .head_dim = 1,
                             .last = seen,
                             .len = &len,
                             .type = LH_F32,
                             .order = (cache_order)kind(ORDER, n),
                             .seed = (uint64_t)n,
                             .bias = (float)kind(BIAS, n)});
    float *x = lot_normals(m, all * ld, 2.0f, 1), *lse = lot_normals(m, all, 1.0f, 2),
          *want = lot_copy(m, x, all * ld * 4);
    float *gains = lot_normals(m, rows, 0.5f, 3), *missing = lot_new(m, all * 4), *got = lot_new(m, all * (ld + 1) * 4);
    int32_t *positions = lot_new(m, rows * 4), *until = lot_new(m, rows * 4);
    lh_observed o = {.kv = &c.host,
                     .map = {.heads = group, .group = group},
                     .logit = {.scale = 0.7f, .softcap = (float)kind(CAP, n), .window = kind(WINDOW, n)},
                     .rows = rows,
                     .gains = kind(GAIN, n) ? gains : NULL};
    for (int64_t r = 0; r < rows; r++) {
        positions[r] = (int32_t)draw(4, (uint64_t)(100 * n + r), seen);
        until[r] = (int32_t)seen;
    }
    for (int64_t i = 0; i < all; i++) lse[i] = i % 7 == 3 ? -INFINITY : lse[i] + 4;
    for (int64_t i = 0; i < group; i++)
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0, shift = lse[r * group + i];
            float *row = want + (i * rows + r) * ld;
            for (int64_t s = 0; s < cols; s++) {
                int64_t p = cache_position(&c.host, 0, first + s), last = kind(UNTIL, n) ? until[r] : positions[r];
                int sees = p <= last && (!o.logit.window || p > positions[r] - o.logit.window);
                double weight = bounded_weight(&o, r, first + s, &x[(i * rows + r) * ld + s], shift, most);
                row[s] = sees && shift != -INFINITY ? (float)weight : 0.0f;
                sum += row[s];
            }
            missing[i * rows + r] = shift == -INFINITY ? 0.0f : (float)(1 - sum);
        }
    lh_ragged kv = rig_cache(g, &c);
    float *on = rig_put(g, x, all * ld * 4), *rest = rig_new(g, all * 4);
    o.kv = &kv;
    o.gains = o.gains ? rig_put(g, gains, rows * 4) : NULL;
    o.positions = rig_put(g, positions, rows * 4);
    o.until = kind(UNTIL, n) ? rig_put(g, until, rows * 4) : NULL;
    RUN(g, row_weights, .x = on, .missing = n % 5 ? rest : NULL, .rows = o, .lse = rig_put(g, lse, all * 4),
        .lse_ld = group, .first = first, .cols = cols, .ld = ld, .most = most);
    rig_get(g, got, on, all * ld * 4);
    check_near(got, want, all * ld, (tolerance){3e-6, 1e-9}, "row_weights, %s", g->ops->name);
    rig_get(g, got, rest, all * 4);
    if (n % 5) check_near(got, missing, all, (tolerance){1e-5, 1e-5}, "row_weights, missing, %s", g->ops->name);
}

START_TEST(test_row_weights_are_those_of_the_rows_log_sum_exps)
{
    on_all_backends(240, weigh_rows);
}
END_TEST

/* ---- normalise_rows, transpose ---- */

static void share_rows(rig *g, lot *m, int n)
{
    const int64_t rows = kind(ROWS, n), cols = kind(COLS, n), ld = cols + kind(GAP, n);
    float *x = lot_normals(m, rows * ld, 1.0f, 1), *f = lot_normals(m, cols, 1.0f, 2), *got = lot_new(m, rows * ld * 4);
    for (int64_t i = 0; i < rows * ld; i++) x[i] = i / (ld + !ld) % 4 == 2 ? 0.0f : fabsf(x[i]);
    for (int64_t c = 0; c < cols; c++) f[c] = expf(f[c]);
    float *on = rig_put(g, x, rows * ld * 4);
    RUN(g, normalise_rows, .x = on, .factors = kind(FACTORS, n) ? rig_put(g, f, cols * 4) : NULL, .rows = rows,
        .cols = cols, .ld = ld);
    rig_get(g, got, on, rows * ld * 4);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) sum += (double)x[r * ld + c] * (kind(FACTORS, n) ? f[c] : 1.0);
        for (int64_t c = 0; c < cols && sum > 0; c++)
            x[r * ld + c] = (float)(x[r * ld + c] * (kind(FACTORS, n) ? f[c] : 1.0) / sum);
    }
    check_near(got, x, rows * ld, (tolerance){3e-6, 0}, "normalise_rows, %s", g->ops->name);
}

static void transpose_matrix(rig *g, lot *m, int n)
{
    const int64_t rows = kind(ROWS, n), cols = kind(COLS, n), x_ld = cols + kind(GAP, n), y_ld = rows + n % 3;
    const lh_dtype from = (lh_dtype)kind(FROM, n), to = (lh_dtype)kind(TO, n);
    const float *x = lot_normals(m, rows * x_ld, 1.0f, 1), factor = n % 2 ? 1.0f : -1.0f;
    const uint16_t *x16 = lot_bf16(m, x, rows * x_ld);
    const int64_t bytes = cols * y_ld * lh_dtype_bytes(to);
    char *want = lot_new(m, bytes), *got = lot_new(m, bytes);
    memset(want, 0xff, (size_t)bytes);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            float y = factor * (from == LH_F32 ? x[r * x_ld + c] : lh_bf16_to_f32(x16[r * x_ld + c]));
            if (to == LH_F32)
                ((float *)want)[c * y_ld + r] = y;
            else
                ((uint16_t *)want)[c * y_ld + r] = lh_f32_to_bf16(y);
        }
    void *y = rig_new(g, bytes);
    RUN(g, transpose, .y = y, .x = from == LH_F32 ? rig_put(g, x, rows * x_ld * 4) : rig_put(g, x16, rows * x_ld * 2),
        .y_type = to, .x_type = from, .rows = rows, .cols = cols, .y_ld = y_ld, .x_ld = x_ld, .factor = factor);
    rig_get(g, got, y, bytes);
    check_same(got, want, bytes, "transpose, %s", g->ops->name);
}

START_TEST(test_normalised_rows_are_shares_of_their_sums)
{
    on_all_backends(120, share_rows);
}
END_TEST

START_TEST(test_transpose_moves_every_number_and_rounds_once)
{
    on_all_backends(120, transpose_matrix);
}
END_TEST

/* ---- conjugate gradients ---- */

/* Ridge regressions with a matrix a [n, cols], in double: of each of `rows` problems the right-hand side y [rows, n].
 */
typedef struct regressions {
    int64_t rows, cols, n;
    const float *a, *y;
    float *diagonal, ridge;
    double t;
} regressions;

static void regressions_make(lot *m, regressions *q, int n)
{
    double sum = 0;
    *q = (regressions){.rows = 1 + kind(ROWS, n) % 6,
                       .cols = 1 + kind(COLS, n) % 40,
                       .n = kind(DEPTH, n),
                       .ridge = (float)kind(RIDGE, n) / 1000};
    float *a = lot_normals(m, q->n * q->cols, 1.0f, (uint64_t)n), *diagonal = lot_new(m, q->cols * 4);
    for (int64_t i = 0; i < q->n * q->cols; i++)
        a[i] = n % 4 == 1 && i % q->cols == 2 ? 0.0f : a[i] / (float)(1 + i % q->cols);
    for (int64_t c = 0; c < q->cols; c++) {
        double squares = 0;
        for (int64_t i = 0; i < q->n; i++) squares += (double)a[i * q->cols + c] * a[i * q->cols + c];
        diagonal[c] = (float)squares;
        sum += diagonal[c];
    }
    q->a = a;
    q->y = lot_normals(m, q->rows * q->n, 1.0f, 77);
    q->diagonal = diagonal;
    q->t = q->ridge * sum / (double)q->cols;
}

/* y [rows, n] = x A', or back. */
static void times(const regressions *q, const float *x, float *y, int back)
{
    const int64_t in = back ? q->n : q->cols, out = back ? q->cols : q->n;
    for (int64_t i = 0; i < q->rows; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t k = 0; k < in; k++)
                sum += (double)x[i * in + k] * q->a[back ? k * q->cols + o : o * q->cols + k];
            y[i * out + o] = (float)sum;
        }
}

/* |A x - y|^2 and that with t |x|^2, of problem i. */
static void errors(const regressions *q, const float *x, int64_t i, double out[2])
{
    out[0] = 0;
    for (int64_t r = 0; r < q->n; r++) {
        double rest = q->y[i * q->n + r];
        for (int64_t c = 0; c < q->cols; c++) rest -= (double)q->a[r * q->cols + c] * x[i * q->cols + c];
        out[0] += rest * rest;
    }
    out[1] = out[0];
    for (int64_t c = 0; c < q->cols; c++) out[1] += q->t * x[i * q->cols + c] * x[i * q->cols + c];
}

/* Steps on the backend, and the result in x [rows, cols]. `steps_seen` is called after each. */
typedef struct climb {
    rig *g;
    lot *m;
    float *x, *r, *p, *energy; /* device */
    float *host;               /* x */
    const float *diagonal;
} climb;

static void climb_step(const regressions *q, climb *s, const float *products, const float *back, float high)
{
    const int64_t bytes = q->rows * q->cols * 4;
    RUN(s->g, conjugate_gradients, .x = s->x, .r = s->r, .p = s->p, .energy = s->energy,
        .products = products ? rig_put(s->g, products, q->rows * q->n * 4) : NULL,
        .back = back ? rig_put(s->g, back, bytes) : NULL, .diagonal = s->diagonal, .rows = q->rows, .cols = q->cols,
        .n = q->n, .ridge = q->ridge, .low = -INFINITY, .high = high);
    rig_get(s->g, s->host, s->x, bytes);
}

static void climb_open(const regressions *q, climb *s, rig *g, lot *m)
{
    const int64_t bytes = q->rows * q->cols * 4;
    float *r = lot_new(m, bytes), *zero = lot_new(m, bytes);
    times(q, q->y, r, 1);
    *s = (climb){.g = g,
                 .m = m,
                 .x = rig_put(g, zero, bytes),
                 .r = rig_put(g, r, bytes),
                 .p = rig_new(g, bytes),
                 .energy = rig_new(g, 2 * q->rows * 4),
                 .host = lot_new(m, bytes),
                 .diagonal = rig_put(g, q->diagonal, q->cols * 4)};
    climb_step(q, s, NULL, NULL, INFINITY);
}

static void climb_on(const regressions *q, climb *s, float high)
{
    const int64_t bytes = q->rows * q->cols * 4;
    float *p = lot_new(s->m, bytes), *back = lot_new(s->m, bytes), *products = lot_new(s->m, q->rows * q->n * 4);
    rig_get(s->g, p, s->p, bytes);
    times(q, p, products, 0);
    times(q, products, back, 1);
    climb_step(q, s, products, back, high);
}

/* The exact solution of problem i: Gaussian elimination of the normal equations. x: [cols]. */
static void solve(lot *m, const regressions *q, int64_t i, double *x)
{
    const int64_t n = q->cols, ld = n + 1;
    double *w = lot_new(m, n * ld * 8);
    for (int64_t a = 0; a < n; a++) {
        for (int64_t r = 0; r < q->n; r++) {
            for (int64_t b = 0; b < n; b++) w[a * ld + b] += (double)q->a[r * n + a] * q->a[r * n + b];
            w[a * ld + n] += (double)q->a[r * n + a] * q->y[i * q->n + r];
        }
        w[a * ld + a] += q->t;
    }
    for (int64_t k = 0; k < n; k++)
        for (int64_t a = 0; a < n; a++) {
            double factor = a != k && w[k * ld + k] != 0 ? w[a * ld + k] / w[k * ld + k] : 0.0;
            for (int64_t b = k; b <= n && factor != 0; b++) w[a * ld + b] -= factor * w[k * ld + b];
        }
    for (int64_t k = 0; k < n; k++) x[k] = w[k * ld + k] != 0 ? w[k * ld + n] / w[k * ld + k] : 0.0;
}

/* What is minimised never grows; 1e-5 of it is the rounding of f32. */
static void never_grows(rig *g, lot *m, int n)
{
    regressions q;
    climb s;
    double first[2], before[8], now[2];
    regressions_make(m, &q, n);
    climb_open(&q, &s, g, m);
    for (int64_t i = 0; i < q.rows; i++) {
        errors(&q, s.host, i, first);
        before[i] = first[1];
    }
    for (int k = 0; k < 6; k++) {
        climb_on(&q, &s, INFINITY);
        for (int64_t i = 0; i < q.rows; i++) {
            errors(&q, s.host, i, now);
            if (now[1] > before[i] * (1 + 1e-5) + 1e-9 || now[0] > now[1])
                ck_abort_msg("conjugate_gradients, %s: step %d from %g to %g%s", g->ops->name, k, before[i], now[1],
                             case_words());
            before[i] = now[1];
        }
    }
}

START_TEST(test_no_step_makes_what_is_minimised_grow)
{
    on_all_backends(60, never_grows);
}
END_TEST

/* As many steps as there are unknowns. */
static void reach_the_end(rig *g, lot *m, int n)
{
    regressions q;
    climb s;
    regressions_make(m, &q, n);
    if (q.ridge < 0.5f) return; /* else the equations may be near singular */
    climb_open(&q, &s, g, m);
    for (int64_t k = 0; k < 40; k++) climb_on(&q, &s, INFINITY);
    for (int64_t i = 0; i < q.rows; i++) {
        double *x = lot_new(m, q.cols * 8);
        float *want = lot_new(m, q.cols * 4);
        solve(m, &q, i, x);
        for (int64_t c = 0; c < q.cols; c++) want[c] = (float)x[c];
        check_near(s.host + i * q.cols, want, q.cols, (tolerance){1e-4, 5e-5}, "conjugate_gradients, the end, %s",
                   g->ops->name);
    }
}

START_TEST(test_the_steps_end_at_the_solution_of_the_normal_equations)
{
    on_all_backends(90, reach_the_end);
}
END_TEST

static void stay_within(rig *g, lot *m, int n)
{
    regressions q;
    climb s;
    regressions_make(m, &q, n);
    climb_open(&q, &s, g, m);
    climb_on(&q, &s, INFINITY);
    climb_on(&q, &s, 0.01f);
    for (int64_t i = 0; i < q.rows * q.cols; i++) ck_assert_msg(s.host[i] <= 0.01f, "%s", case_words());
}

START_TEST(test_a_bounded_step_stays_within_its_bounds)
{
    on_all_backends(24, stay_within);
}
END_TEST

/* ---- biases ---- */

static void bias_entries(rig *g, lot *m, int n)
{
    const int64_t cols = 1 + kind(COLS, n), rows = kind(DEPTH, n);
    float *x = lot_normals(m, cols, 0.3f, 1), *products = lot_normals(m, rows, 1.0f, 2);
    float *missing = lot_normals(m, rows, 1.0f, 3), *want = lot_new(m, cols * 4), *bias = lot_new(m, cols * 4);
    float *got = lot_new(m, cols * 4), *y = rig_new(g, cols * 4), *factors = rig_new(g, cols * 4);
    double along = 0, length = 0;
    for (int64_t c = 0; c < cols; c++) x[c] = x[c] > -0.9f ? x[c] : -0.9f;
    for (int64_t r = 0; r < rows; r++) { /* no step, part of one, a whole one */
        products[r] = n % 4 == 3 ? 0.0f : products[r];
        missing[r] = missing[r] / 9 + (n % 3 ? (float)(n % 3) * 0.6f : -1.0f) * products[r];
        along += (double)products[r] * missing[r];
        length += (double)products[r] * products[r];
    }
    double step = length > 0 ? fmin(fmax(along / length, 0), 1) : 0;
    for (int64_t c = 0; c < cols; c++) {
        want[c] = (float)(1 + step * x[c]);
        bias[c] = (float)log(1 + step * x[c]);
    }
    RUN(g, mass_bias, .bias = y, .factors = factors, .x = rig_put(g, x, cols * 4),
        .products = rig_put(g, products, rows * 4), .missing = rig_put(g, missing, rows * 4), .cols = cols, .n = rows);
    rig_get(g, got, factors, cols * 4);
    check_near(got, want, cols, (tolerance){3e-6, 0}, "mass_bias, factors, %s", g->ops->name);
    rig_get(g, got, y, cols * 4);
    check_near(got, bias, cols, (tolerance){3e-6, 3e-6}, "mass_bias, %s", g->ops->name);
}

START_TEST(test_factors_go_as_far_as_the_rows_miss_less)
{
    on_all_backends(120, bias_entries);
}
END_TEST

/* ---- losses by the number of entries that stay ---- */

/* Sums of stretches, of rows whose weights are 0 up to a stretch or everywhere, or 0 from one on. */
static void stretches_make(lot *m, lh_curve_losses_args *a, int n)
{
    *a = (lh_curve_losses_args){.points = kind(ROWS, n) % 8, .dim = kind(DEPTH, n), .n = kind(COLS, n)};
    const int64_t step = (a->dim + 1) * a->n;
    float *sums = lot_normals(m, a->points * step, 1.0f, (uint64_t)n);
    for (int64_t p = 0; p < a->points; p++)
        for (int64_t r = 0; r < a->n; r++) {
            int is_empty = r % 9 == 4 || (r % 7 == 2 && p < 2) || (r % 5 == 1 && p > 1);
            for (int64_t x = 0; x <= a->dim; x++) {
                float *sum = sums + p * step + x * a->n + r;
                *sum = is_empty ? 0.0f : x == a->dim ? 0.1f + fabsf(*sum) : *sum;
            }
        }
    a->sums = sums;
}

/* Number x of the output of row r over the first p + 1 stretches. */
static double first_output(const lh_curve_losses_args *a, int64_t p, int64_t x, int64_t r)
{
    double value = 0, weight = 0;
    for (int64_t q = 0; q <= p; q++) {
        value += a->sums[(q * (a->dim + 1) + x) * a->n + r];
        weight += a->sums[(q * (a->dim + 1) + a->dim) * a->n + r];
    }
    return weight > 0 ? value / weight : 0;
}

/* Outputs in f32 are off by some 1e-7 of themselves, and so a loss by that of the root of loss times energy. */
static void lose_stretches(rig *g, lot *m, int n)
{
    const int threads[] = {1, 2, 3, 5};
    lh_curve_losses_args a;
    stretches_make(m, &a, n);
    const float *sums = rig_put(g, a.sums, a.points * (a.dim + 1) * a.n * 4);
    float *want = lot_new(m, (a.points + 1) * 4), *got[4];
    double *all = lot_new(m, (a.points + 1) * 8);
    for (int64_t x = 0; x < a.dim && a.points; x++)
        for (int64_t r = 0; r < a.n; r++) {
            double last = first_output(&a, a.points - 1, x, r);
            all[a.points] += last * last;
            for (int64_t p = 0; p < a.points; p++) {
                double lost = first_output(&a, p, x, r) - last;
                all[p] += lost * lost;
            }
        }
    for (int64_t p = 0; p <= a.points; p++) want[p] = (float)all[p];
    for (int t = 0; t < 4; t++) {
        float *y = rig_new(g, (a.points + 1) * 4);
        omp_set_num_threads(threads[t]);
        RUN(g, curve_losses, .losses = y, .energy = y + a.points, .sums = sums, .points = a.points, .dim = a.dim,
            .n = a.n);
        got[t] = lot_new(m, (a.points + 1) * 4);
        rig_get(g, got[t], y, (a.points + 1) * 4);
        check_same(got[t], got[0], (a.points + 1) * 4, "curve_losses, %d threads, %s", threads[t], g->ops->name);
    }
    check_near(got[0], want, a.points + 1, (tolerance){1e-4, 1e-9 * want[a.points]}, "curve_losses, %s", g->ops->name);
    if (a.points) ck_assert_msg(got[0][a.points - 1] == 0, "%s: %g is lost of all", g->ops->name, got[0][a.points - 1]);
}

START_TEST(test_curve_losses_are_those_of_outputs_and_do_not_depend_on_threads)
{
    on_all_backends(120, lose_stretches);
}
END_TEST

/* ---- errors without an entry ---- */

/* Rows of n weights, flat or of one that is nearly 1, and the values; of an odd row in a while nothing. The first
 * `cols` of `all` entries are those of the operation. */
typedef struct weighed {
    int64_t n, cols, all, dim;
    float *weights, *values; /* [n, all], [all, dim] */
    double *sums, *rest;     /* [dim + 1, n] */
    double *to, *off;        /* [cols] errors, and how far floats may lie from them */
} weighed;

static void weighed_make(lot *m, weighed *w, int n)
{
    static const double sharpness[] = {0.2, 1, 3, 8, 12};
    *w = (weighed){.n = kind(ROWS, n) * kind(GROUP, n), .cols = kind(COLS, n), .dim = kind(DEPTH, n)};
    w->all = w->cols + n % 4;
    w->weights = lot_normals(m, w->n * w->all, 1.0f, (uint64_t)n);
    w->values = lot_normals(m, w->all * w->dim, 1.0f, (uint64_t)(n + 1000));
    w->sums = lot_new(m, 2 * (w->dim + 1) * w->n * 8);
    w->rest = w->sums + (w->dim + 1) * w->n;
    w->to = lot_new(m, 2 * w->cols * 8);
    w->off = w->to + w->cols;
    for (int64_t i = 0; i < w->n; i++) {
        float *row = w->weights + i * w->all;
        double sum = 0;
        for (int64_t s = 0; s < w->all; s++) sum += exp(sharpness[i % 5] * row[s]);
        for (int64_t s = 0; s < w->all; s++) {
            row[s] = i % 11 == 6 ? 0.0f : (float)(exp(sharpness[i % 5] * row[s]) / sum * (1 + 0.01 * (double)(i % 3)));
            for (int64_t x = 0; x <= w->dim; x++) {
                double one = (double)row[s] * (x < w->dim ? w->values[s * w->dim + x] : 1.0f);
                w->sums[x * w->n + i] += one;
                if (row[s] <= LH_DOMINANT) w->rest[x * w->n + i] += one;
            }
        }
    }
}

/* The errors of row i without each of its entries, from what is left of its sums: all of them less the entry's, and of
 * a dominant entry the others'. */
static void add_errors_of_row(weighed *w, int64_t i)
{
    const double all = w->sums[w->dim * w->n + i];
    for (int64_t s = 0; s < w->cols && all > 0 && w->all > 1; s++) {
        const double weight = w->weights[i * w->all + s], takes = weight > LH_DOMINANT ? 0 : weight;
        const double *from = weight > LH_DOMINANT ? w->rest : w->sums, rest = from[w->dim * w->n + i] - takes;
        double error = 0, lengths = 0, rate = fmin(weight / rest, 4);
        for (int64_t x = 0; x < w->dim; x++) {
            const double v = w->values[s * w->dim + x], whole = w->sums[x * w->n + i] / all,
                         left = (from[x * w->n + i] - takes * v) / rest;
            error += (whole - left) * (whole - left);
            lengths += whole * whole + left * left + v * v;
        }
        w->to[s] += error;
        w->off[s] += 1e-5 * error + 2e-6 * rate * rate * lengths;
    }
}

static float *as_floats(lot *m, const double *x, int64_t n)
{
    float *y = lot_new(m, n * 4);
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
    return y;
}

static void err_without_entries(rig *g, lot *m, int n)
{
    weighed w;
    weighed_make(m, &w, n);
    const int64_t sums = (w.dim + 1) * w.n, ld = w.cols + kind(GAP, n);
    float *errors = lot_normals(m, w.cols, 1.0f, 3), *squares = lot_new(m, w.cols * 4), *energies = lot_new(m, w.n * 4),
          *products = lot_new(m, w.n * ld * 4), *weights = lot_new(m, w.n * ld * 4), *got = lot_new(m, w.cols * 4);
    for (int64_t i = 0; i < w.n; i++) {
        add_errors_of_row(&w, i);
        for (int64_t x = 0; x < w.dim; x++) energies[i] += (float)(w.sums[x * w.n + i] * w.sums[x * w.n + i]);
        for (int64_t s = 0; s < w.cols; s++) {
            double dot = 0;
            for (int64_t x = 0; x < w.dim; x++) dot += w.sums[x * w.n + i] * w.values[s * w.dim + x];
            products[i * ld + s] = (float)dot;
            weights[i * ld + s] = w.weights[i * w.all + s];
        }
    }
    for (int64_t s = 0; s < w.cols; s++)
        for (int64_t x = 0; x < w.dim; x++) squares[s] += w.values[s * w.dim + x] * w.values[s * w.dim + x];
    float *y = rig_put(g, errors, w.cols * 4);
    RUN(g, output_errors, .errors = y, .weights = rig_put(g, weights, w.n * ld * 4),
        .products = rig_put(g, products, w.n * ld * 4), .squares = rig_put(g, squares, w.cols * 4),
        .values = rig_put(g, w.values, w.all * w.dim * 4), .energies = rig_put(g, energies, w.n * 4),
        .masses = rig_put(g, as_floats(m, w.sums + w.dim * w.n, w.n), w.n * 4),
        .rest = rig_put(g, as_floats(m, w.rest, sums), sums * 4), .n = w.n, .cols = w.cols, .dim = w.dim, .ld = ld);
    rig_get(g, got, y, w.cols * 4);
    for (int64_t s = 0; s < w.cols; s++)
        ck_assert_msg(fabs((double)got[s] - (double)errors[s] - w.to[s]) <= w.off[s] + 1e-6 * fabs((double)errors[s]),
                      "output_errors, %s: slot %lld has %g, not %g%s", g->ops->name, (long long)s,
                      (double)(got[s] - errors[s]), w.to[s], case_words());
}

START_TEST(test_output_errors_are_those_of_what_is_left)
{
    on_all_backends(120, err_without_entries);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_row_weights_are_those_of_the_rows_log_sum_exps,
                                  test_normalised_rows_are_shares_of_their_sums,
                                  test_transpose_moves_every_number_and_rounds_once,
                                  test_no_step_makes_what_is_minimised_grow,
                                  test_the_steps_end_at_the_solution_of_the_normal_equations,
                                  test_a_bounded_step_stays_within_its_bounds,
                                  test_factors_go_as_far_as_the_rows_miss_less,
                                  test_curve_losses_are_those_of_outputs_and_do_not_depend_on_threads,
                                  test_output_errors_are_those_of_what_is_left,
                                  NULL};
    return rig_run("kernels/fit", tests);
}
