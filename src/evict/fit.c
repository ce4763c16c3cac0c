#include "evict/fit.h"

#include <math.h>

#include "base/minmax.h"
#include "evict/evict.h"
#include "exec/scratch.h"

const lh_fit_strength lh_fit_usual_bias = {.ridge = 1e-2f, .steps = 3},
                      lh_fit_usual_values = {.ridge = 1e-1f, .steps = 3};

/* Factors of weights are between e^-3 and e^3; one less than those. */
static const float factor_low = 0.0497870684f - 1.0f, factor_high = 20.0855369f - 1.0f;

/* The arrays of a KV head, n = group x rows, on the scratch stack. The numbers of an entry lie along the last
 * dimension. Operands of products have type `type`; if it is f32, `matrix` and `matrix_t` are the weights themselves.
 */
typedef struct fit_head {
    const lh_exec *exec;
    const lh_fit *fit;
    lh_dtype type;
    int64_t h, n, dim, first, cols;   /* slots [first, first + cols) of head h */
    float *weights, *weights_t;       /* [n, cols] and its transpose */
    void *matrix, *matrix_t, *factor; /* of `type`: the same, and one of the arrays below */
    float *x, *r, *p;                 /* [dim, cols] */
    float *values_t, *products;       /* [dim + 1, cols] and [dim + 1, n]: the sums of weights are a dimension more */
    float *diagonal, *factors;        /* [cols] */
    float *residual_mass;             /* [n] */
    float *energy;                    /* [dim, 2] */
} fit_head;

static int64_t rows_of(const lh_fit *fit)
{
    return fit->rows.map.group * fit->rows.rows;
}

static lh_dtype product_type(const lh_fit *fit)
{
    return fit->order == LH_ORDER_ANY && !fit->exact ? fit->rows.kv->type : LH_F32;
}

static float *floats(const lh_exec *exec, int64_t count)
{
    return lh_scratch_alloc(exec, count * (int64_t)sizeof(float));
}

/* Memory for floats converted to operands; NULL for f32, which needs no copy. */
static void *operand(const fit_head *a, int64_t count)
{
    return lh_scratch_alloc(a->exec, a->type == LH_F32 ? 0 : count * lh_dtype_bytes(a->type));
}

int64_t lh_fit_output_bytes(const lh_fit *fit)
{
    return fit->rows.kv->heads * (fit->rows.kv->head_dim + 1) * rows_of(fit) * (int64_t)sizeof(float);
}

static fit_head open_head(const lh_exec *exec, const lh_fit *fit, int64_t h)
{
    return (fit_head){
        .exec = exec, .fit = fit, .type = product_type(fit), .h = h, .n = rows_of(fit), .dim = fit->rows.kv->head_dim};
}

/* y [tokens, out] = x [tokens, in] times w [out, in] transposed; x and w are of the head's type. */
typedef struct product {
    float *y;
    const void *x, *w;
    int64_t tokens, out, in;
} product;

static void multiply(const fit_head *a, product m)
{
    LH_RUN(a->exec, gemm, .y = m.y, .x = m.x, .w = lh_plain_matrix(m.w, a->type, m.in), .type = a->type,
           .tokens = m.tokens, .out = m.out, .in = m.in, .y_ld = m.out, .x_ld = m.in, .order = a->fit->order);
}

/* rows x cols numbers as another type, close together. */
typedef struct conversion {
    void *dst;
    const void *src;
    lh_dtype dst_type, src_type;
    int64_t rows, cols, src_ld;
} conversion;

static void convert(const fit_head *a, conversion c)
{
    LH_RUN(a->exec, convert, .dst = c.dst, .src = c.src, .dst_type = c.dst_type, .src_type = c.src_type, .rows = c.rows,
           .cols = c.cols, .dst_ld = c.cols, .src_ld = c.src_ld);
}

/* rows x cols numbers of f32 as an operand: x itself, or converted into `to`. */
static const void *as_factor(const fit_head *a, void *to, const float *x, int64_t rows, int64_t cols)
{
    if (a->type == LH_F32) return x;
    convert(a, (conversion){to, x, a->type, LH_F32, rows, cols, cols});
    return to;
}

/* Element 0 of the first slot's key or value. */
static void *first_of(const fit_head *a, void *arena)
{
    const lh_ragged *kv = a->fit->rows.kv;
    return (char *)arena + (a->fit->offset[a->h] + a->first) * a->dim * lh_dtype_bytes(kv->type);
}

/* y, of a type, = factor times the values, one dimension a row. */
static void take_values(const fit_head *a, void *y, lh_dtype type, float factor)
{
    const lh_ragged *kv = a->fit->rows.kv;
    LH_RUN(a->exec, transpose, .y = y, .x = first_of(a, kv->v), .y_type = type, .x_type = kv->type, .rows = a->cols,
           .cols = a->dim, .y_ld = a->cols, .x_ld = a->dim, .factor = factor);
}

/* weights = products of queries and keys. */
static void multiply_keys(const fit_head *a)
{
    const lh_dtype type = a->type;
    const lh_ragged *kv = a->fit->rows.kv;
    const lh_observed *rows = &a->fit->rows;
    const int64_t group = rows->map.group, d = a->dim;
    const void *keys = first_of(a, kv->k);
    const int64_t mark = lh_scratch_mark(a->exec), size = lh_dtype_bytes(type);
    void *queries = lh_scratch_alloc(a->exec, rows->rows * d * size);
    if (kv->type != type) {
        void *converted = lh_scratch_alloc(a->exec, a->cols * d * size);
        convert(a, (conversion){converted, keys, type, kv->type, a->cols, d, d});
        keys = converted;
    }
    for (int64_t i = 0; i < group; i++) {
        const float *q = rows->q + (a->h * group + i) * d;
        float *y = a->weights + i * rows->rows * a->cols;
        convert(a, (conversion){queries, q, type, LH_F32, rows->rows, d, rows->q_ld});
        multiply(a, (product){y, queries, keys, rows->rows, a->cols, d});
    }
    lh_scratch_release(a->exec, mark);
}

/* The weights that the rows give to the slots. */
static void compute_weights(const fit_head *a, float *residual_mass)
{
    const lh_fit *fit = a->fit;
    const int64_t group = fit->rows.map.group;
    const lh_ragged one = lh_one_head(fit->rows.kv, a->h);
    lh_observed rows = fit->rows;
    rows.kv = &one;
    rows.map = (lh_grouping){.heads = group, .group = group};
    multiply_keys(a);
    LH_RUN(a->exec, row_weights, .x = a->weights, .missing = residual_mass, .rows = rows,
           .lse = fit->lse + a->h * group, .lse_ld = fit->lse_ld, .first = a->first, .cols = a->cols, .ld = a->cols,
           .most = fit->most);
}

const float *lh_fit_weights(const lh_exec *exec, const lh_fit *fit, lh_fit_slots slots)
{
    fit_head a = open_head(exec, fit, slots.head);
    a.first = slots.first;
    a.cols = slots.count;
    a.weights = floats(exec, a.n * a.cols);
    compute_weights(&a, NULL);
    return a.weights;
}

/* ---- before the eviction ---- */

/* The last row of `values_t` = 1 for every slot: its weighted sum is the sum of the weights. */
static void put_ones(const fit_head *a)
{
    const float one = 1.0f;
    char ones[LH_FIT_AT_ONCE * sizeof one];
    const int64_t size = lh_dtype_bytes(a->type), row = a->cols * size;
    for (int64_t i = 0; i < a->cols; i++) lh_dtype_convert(ones + i * size, a->type, &one, LH_F32, 1);
    lh_exec_put(a->exec, (char *)a->values_t + a->dim * row, ones, row);
}

/* products = the sums over a range of slots. */
static void add_up_values(const fit_head *a)
{
    compute_weights(a, NULL);
    take_values(a, a->values_t, a->type, 1.0f);
    put_ones(a);
    const void *weights = as_factor(a, a->matrix, a->weights, a->n, a->cols);
    multiply(a, (product){a->products, a->values_t, weights, a->dim + 1, a->n, a->cols});
}

void lh_fit_add_sums(const lh_exec *exec, const lh_fit *fit, lh_fit_slots slots, float *y)
{
    fit_head a = open_head(exec, fit, slots.head);
    const int64_t end = slots.first + slots.count, mark = lh_scratch_mark(exec);
    a.weights = floats(exec, a.n * LH_FIT_AT_ONCE);
    a.matrix = operand(&a, a.n * LH_FIT_AT_ONCE);
    a.values_t = floats(exec, (a.dim + 1) * LH_FIT_AT_ONCE);
    a.products = floats(exec, (a.dim + 1) * a.n);
    for (a.first = slots.first; a.first < end; a.first += LH_FIT_AT_ONCE) {
        a.cols = lh_min_i64(LH_FIT_AT_ONCE, end - a.first);
        add_up_values(&a);
        LH_RUN(exec, add, .y = y, .x = a.products, .tokens = a.dim + 1, .dim = a.n, .y_ld = a.n, .x_ld = a.n);
    }
    lh_scratch_release(exec, mark);
}

/* The outputs of a head in fit->outputs. */
static float *outputs_of(const lh_fit *fit, int64_t head)
{
    return fit->outputs + head * (fit->rows.kv->head_dim + 1) * rows_of(fit);
}

void lh_fit_outputs(const lh_exec *exec, const lh_fit *fit)
{
    lh_exec_zero(exec, fit->outputs, lh_fit_output_bytes(fit));
    for (int64_t h = 0; h < fit->rows.kv->heads; h++)
        lh_fit_add_sums(exec, fit, (lh_fit_slots){.head = h, .count = fit->len[h]}, outputs_of(fit, h));
}

/* ---- after it ---- */

/* A regression of `rows` columns on the weights: x is where it begins, and products = y - A x; then x is the result.
 * `bounded`: as factors of weights, less one. */
typedef struct regression {
    int64_t rows;
    lh_fit_strength strength;
    int bounded;
} regression;

static void step(const fit_head *a, const regression *g, const float *products, int is_last)
{
    const int bounded = g->bounded && is_last;
    LH_RUN(a->exec, conjugate_gradients, .x = a->x, .r = a->r, .p = a->p, .energy = a->energy, .products = products,
           .back = a->values_t, .diagonal = a->diagonal, .rows = g->rows, .cols = a->cols, .n = a->n,
           .ridge = g->strength.ridge, .low = bounded ? factor_low : -INFINITY,
           .high = bounded ? factor_high : INFINITY);
}

/* The weights as operands. */
static void make_matrices(fit_head *a)
{
    LH_RUN(a->exec, transpose, .y = a->weights_t, .x = a->weights, .y_type = LH_F32, .x_type = LH_F32, .rows = a->n,
           .cols = a->cols, .y_ld = a->n, .x_ld = a->cols, .factor = 1.0f);
    LH_RUN(a->exec, squares, .y = a->diagonal, .x = a->weights_t, .tokens = a->cols, .heads = 1, .dim = a->n,
           .x_ld = a->n, .y_ld = 1);
    if (a->type == LH_F32) {
        a->matrix = a->weights;
        a->matrix_t = a->weights_t;
        return;
    }
    convert(a, (conversion){a->matrix, a->weights, a->type, LH_F32, a->n, a->cols, a->cols});
    convert(a, (conversion){a->matrix_t, a->weights_t, a->type, LH_F32, a->cols, a->n, a->n});
}

/* y [rows, n] = x [rows, cols] times the weights' transpose; y [rows, cols] = x [rows, n] times the weights. */
static void to_rows(const fit_head *a, float *y, const float *x, int64_t rows)
{
    multiply(a, (product){y, as_factor(a, a->factor, x, rows, a->cols), a->matrix, rows, a->n, a->cols});
}

static void to_entries(const fit_head *a, float *y, const float *x, int64_t rows)
{
    multiply(a, (product){y, as_factor(a, a->factor, x, rows, a->n), a->matrix_t, rows, a->cols, a->n});
}

static void regress(const fit_head *a, const float *rest, regression g)
{
    to_entries(a, a->r, rest, g.rows);
    step(a, &g, NULL, 0);
    for (int64_t k = 0; k < g.strength.steps; k++) {
        to_rows(a, a->products, a->p, g.rows);
        to_entries(a, a->values_t, a->products, g.rows);
        step(a, &g, a->products, k + 1 == g.strength.steps);
    }
}

static void fit_bias(fit_head *a)
{
    const lh_fit *fit = a->fit;
    lh_exec_zero(a->exec, a->x, a->cols * (int64_t)sizeof *a->x);
    make_matrices(a);
    regress(a, a->residual_mass, (regression){.rows = 1, .strength = fit->of_bias, .bounded = 1});
    to_rows(a, a->products, a->x, 1);
    LH_RUN(a->exec, mass_bias, .bias = fit->rows.kv->bias + fit->offset[a->h], .factors = a->factors, .x = a->x,
           .products = a->products, .missing = a->residual_mass, .cols = a->cols, .n = a->n);
}

static void fit_values(fit_head *a)
{
    const lh_fit *fit = a->fit;
    const lh_ragged *kv = fit->rows.kv;
    LH_RUN(a->exec, normalise_rows, .x = a->weights, .factors = fit->keeps_bias ? NULL : a->factors, .rows = a->n,
           .cols = a->cols, .ld = a->cols);
    make_matrices(a);
    take_values(a, a->x, LH_F32, 1.0f);
    take_values(a, a->values_t, LH_F32, -1.0f);
    to_rows(a, a->products, a->values_t, a->dim);
    LH_RUN(a->exec, add, .y = a->products, .x = outputs_of(fit, a->h), .tokens = a->dim, .dim = a->n, .y_ld = a->n,
           .x_ld = a->n);
    regress(a, a->products, (regression){.rows = a->dim, .strength = fit->of_values});
    LH_RUN(a->exec, transpose, .y = first_of(a, kv->v), .x = a->x, .y_type = kv->type, .x_type = LH_F32, .rows = a->dim,
           .cols = a->cols, .y_ld = a->dim, .x_ld = a->cols, .factor = 1.0f);
}

/* For heads of up to `cols` entries. */
static void alloc_arrays(fit_head *a, int64_t cols)
{
    const lh_exec *exec = a->exec;
    const int64_t n = a->n, d = a->dim;
    a->weights = floats(exec, n * cols);
    a->weights_t = floats(exec, n * cols);
    a->x = floats(exec, d * cols);
    a->r = floats(exec, d * cols);
    a->p = floats(exec, d * cols);
    a->values_t = floats(exec, (d + 1) * cols);
    a->products = floats(exec, (d + 1) * n);
    a->diagonal = floats(exec, cols);
    a->factors = floats(exec, cols);
    a->residual_mass = floats(exec, n);
    a->energy = floats(exec, 2 * d);
    a->matrix = operand(a, n * cols);
    a->matrix_t = operand(a, n * cols);
    a->factor = operand(a, d * lh_max_i64(cols, n));
}

static void fit_head_entries(fit_head *a)
{
    const lh_fit *fit = a->fit;
    float *bias = fit->rows.kv->bias;
    if (!fit->keeps_bias) lh_exec_zero(a->exec, bias + fit->offset[a->h], a->cols * (int64_t)sizeof *bias);
    compute_weights(a, a->residual_mass);
    if (!fit->keeps_bias) fit_bias(a);
    if (!fit->keeps_values) fit_values(a);
}

static int loses_entries(const lh_fit *fit, int64_t h)
{
    return fit->len[h] > 0 && fit->len[h] != fit->before[h];
}

void lh_fit_entries(const lh_exec *exec, const lh_fit *fit)
{
    const int64_t heads = fit->rows.kv->heads, mark = lh_scratch_mark(exec);
    int64_t longest = 0;
    for (int64_t h = 0; h < heads; h++)
        if (loses_entries(fit, h)) longest = lh_max_i64(longest, fit->len[h]);
    fit_head arrays = open_head(exec, fit, 0);
    if (longest > 0) alloc_arrays(&arrays, longest);
    for (int64_t h = 0; h < heads && lh_exec_ok(exec); h++) {
        fit_head a = arrays;
        a.h = h;
        a.cols = fit->len[h];
        if (loses_entries(fit, h)) fit_head_entries(&a);
    }
    lh_scratch_release(exec, mark);
}
