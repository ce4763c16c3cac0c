/* fit.c - bench cases of operations that fit biases and values to query rows; gemm.c times the matrix products. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"row_weights", "normalise_rows", "transpose",     "conjugate_gradients",
                                    "mass_bias",   "curve_losses",   "output_errors", NULL};

LH_BENCH_CALL(row_weights)
LH_BENCH_CALL(normalise_rows)
LH_BENCH_CALL(transpose)
LH_BENCH_CALL(conjugate_gradients)
LH_BENCH_CALL(mass_bias)
LH_BENCH_CALL(curve_losses)
LH_BENCH_CALL(output_errors)

enum { ROWS = 384, DIM = 64 };

/* x, y: [ROWS, cols]; energy: of DIM problems. */
typedef struct arrays {
    int64_t cols;
    float *x, *y, *r, *p, *energy, *lse, *diagonal;
    int32_t *positions;
    lh_ragged kv;
} arrays;

static lh_status make_arrays(lh_bench *b, arrays *a)
{
    a->cols = lh_bench_size(b, 2048, 64);
    const lh_bench_normal matrix = {LH_F32, ROWS * a->cols, 1.0f};
    LH_TRY(lh_bench_normals(b, &a->x, &matrix));
    LH_TRY(lh_bench_normals(b, &a->y, &matrix));
    LH_TRY(lh_bench_normals(b, &a->r, &(lh_bench_normal){LH_F32, DIM * a->cols, 1.0f}));
    LH_TRY(lh_bench_normals(b, &a->p, &(lh_bench_normal){LH_F32, DIM * a->cols, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &a->energy, 2 * DIM * 4));
    LH_TRY(lh_bench_normals(b, &a->lse, &(lh_bench_normal){LH_F32, ROWS, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &a->diagonal, a->cols * 4));
    LH_TRY(lh_bench_positions(b, &a->positions, a->cols, ROWS));
    return lh_bench_fill(b, &a->kv, &(lh_bench_cache){LH_F32, 1, a->cols, DIM, 0}, NULL);
}

static lh_status run_one(lh_bench *b, const arrays *a, lh_bench_case w)
{
    snprintf(w.shape, sizeof w.shape, "%d x %lld", ROWS, (long long)a->cols);
    return lh_bench_run(b, &w, NULL);
}

#define RUN(op, floats, ...) \
    LH_TRY(run_one(          \
        b, a,                \
        (lh_bench_case){     \
            .name = #op, .call = call_##op, .bytes = 4.0 * (double)(floats), .args = &(lh_##op##_args){__VA_ARGS__}}))

static lh_status run_cases(lh_bench *b, const arrays *a)
{
    const int64_t cols = a->cols, all = ROWS * cols, of_problems = DIM * cols;
    const lh_observed rows = {
        .positions = a->positions, .kv = &a->kv, .map = {1, 1, 0}, .logit = {.scale = 0.01f}, .rows = ROWS};
    RUN(row_weights, 2 * all, .x = a->x, .rows = rows, .lse = a->lse, .lse_ld = 1, .cols = cols, .ld = cols);
    RUN(normalise_rows, 2 * all, .x = a->x, .rows = ROWS, .cols = cols, .ld = cols);
    RUN(transpose, 2 * all, .y = a->y, .x = a->x, .rows = ROWS, .cols = cols, .y_ld = ROWS, .x_ld = cols,
        .factor = 1.0f);
    RUN(conjugate_gradients, 7 * of_problems + DIM * ROWS, .x = a->y, .r = a->r, .p = a->p, .energy = a->energy,
        .products = a->x, .back = a->r, .diagonal = a->diagonal, .rows = DIM, .cols = cols, .n = ROWS, .low = -1.0f,
        .high = 1.0f);
    RUN(mass_bias, 3 * cols + 2 * ROWS, .bias = a->r, .factors = a->p, .x = a->diagonal, .products = a->x,
        .missing = a->lse, .cols = cols, .n = ROWS);
    return LH_OK;
}

static lh_status run_curve(lh_bench *b)
{
    const int64_t points = lh_bench_size(b, 32, 2), all = points * (DIM + 1) * ROWS;
    lh_curve_losses_args args = {.points = points, .dim = DIM, .n = ROWS};
    lh_bench_case w = {.name = "curve_losses", .call = call_curve_losses, .bytes = 4.0 * (double)all, .args = &args};
    float *sums;
    LH_TRY(lh_bench_normals(b, &sums, &(lh_bench_normal){LH_F32, all, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &args.losses, points * 4));
    LH_TRY(lh_bench_zeros(b, &args.energy, 4));
    args.sums = sums;
    snprintf(w.shape, sizeof w.shape, "%lld points, %d numbers of %d rows", (long long)points, DIM, ROWS);
    return lh_bench_run(b, &w, NULL);
}

/* No weight is dominant. */
static lh_status run_errors(lh_bench *b, const arrays *a)
{
    const int64_t cols = a->cols;
    float *weights, *masses, *rest;
    LH_TRY(lh_bench_normals(b, &weights, &(lh_bench_normal){LH_F32, ROWS * cols, 0.1f}));
    LH_TRY(lh_bench_normals(b, &masses, &(lh_bench_normal){LH_F32, 2 * ROWS, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &rest, (DIM + 1) * ROWS * 4));
    RUN(output_errors, 2 * ROWS * cols, .errors = a->diagonal, .weights = weights, .products = a->y, .squares = a->r,
        .values = a->p, .energies = masses + ROWS, .masses = masses, .rest = rest, .n = ROWS, .cols = cols, .dim = DIM,
        .ld = cols);
    return LH_OK;
}

static lh_status run_fit(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    arrays a = {0};
    LH_TRY_DONE(make_arrays(b, &a));
    LH_TRY_DONE(run_cases(b, &a));
    LH_TRY_DONE(run_curve(b));
    LH_TRY_DONE(run_errors(b, &a));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_fit = {names, run_fit};
