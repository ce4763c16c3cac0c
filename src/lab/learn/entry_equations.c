#include "lab/learn/entry_equations.h"

#include <math.h>

#include "base/cholesky.h"
#include "base/mem.h"

static int64_t side_of(const lh_entry_equations *e)
{
    return e->features + 1;
}

static double *matrix_of(const lh_entry_equations *e, int64_t layer, int64_t head)
{
    return e->at + (layer * e->heads + head) * side_of(e) * side_of(e);
}

lh_status lh_entry_equations_open(lh_entry_equations *out, const lh_exec *exec, int64_t layers, int64_t heads,
                                  int64_t head_dim)
{
    *out = (lh_entry_equations){.exec = exec, .layers = layers, .heads = heads, .features = lh_feature_count(head_dim)};
    const int64_t side = side_of(out), bytes = layers * heads * side * side * (int64_t)sizeof *out->at;
    LH_TRY(lh_device_alloc(lh_exec_device(exec), &out->at, bytes, LH_MEM_WORK));
    lh_exec_zero(exec, out->at, bytes);
    return lh_exec_take(exec);
}

void lh_entry_equations_close(lh_entry_equations *e)
{
    if (!e->exec) return;
    lh_device_free(lh_exec_device(e->exec), e->at);
    *e = (lh_entry_equations){0};
}

void lh_entry_equations_add(const lh_entry_equations *e, const lh_plain_entries *loaded, int64_t layer, int64_t head,
                            int64_t count, float *rows)
{
    const int64_t side = side_of(e);
    LH_RUN(e->exec, entry_features, .y = rows, .keys = loaded->keys, .values = loaded->values, .rows = count,
           .dim = loaded->entries->head_dim, .y_ld = side);
    LH_RUN(e->exec, row_moments, .products = matrix_of(e, layer, head), .x = rows, .type = LH_F32, .rows = count,
           .heads = 1, .dim = side, .x_ld = side);
}

/* ---- the solution ---- */

/* The last feature is 1, and its product with itself the number of entries. */
static double entries_of(const double *all, int64_t side)
{
    return all[(side - 2) * side + side - 2];
}

/* The equations with every feature divided by its root mean square: the ridge weighs all features the same. scales:
 * [n].
 */
static void scale(const double *all, int64_t side, double ridge, double *m, double *x, double *scales)
{
    const int64_t n = side - 1;
    const double entries = entries_of(all, side);
    for (int64_t a = 0; a < n; a++) scales[a] = fmax(sqrt(all[a * side + a] / entries), 1e-12);
    for (int64_t a = 0; a < n; a++) {
        for (int64_t b = 0; b < n; b++) m[a * n + b] = all[a * side + b] / scales[a] / scales[b];
        m[a * n + a] += ridge * entries;
        x[a] = all[a * side + n] / scales[a];
    }
}

/* 1 - the sum of squared errors over the squared deviations of the target from its mean. */
static double explained_by(const double *all, int64_t side, const double *w)
{
    const int64_t n = side - 1;
    const double entries = entries_of(all, side), sum = all[(n - 1) * side + n], squares = all[n * side + n];
    double error = squares;
    for (int64_t a = 0; a < n; a++) {
        double product = 0;
        for (int64_t b = 0; b < n; b++) product += all[a * side + b] * w[b];
        error += w[a] * (product - 2 * all[a * side + n]);
    }
    const double variance = squares - sum * sum / entries;
    return variance > 0 ? 1 - error / variance : 0;
}

lh_status lh_entry_equations_solve(const lh_entry_equations *e, int64_t layer, int64_t head, double ridge,
                                   float *weights, float *explained)
{
    lh_status st = LH_OK;
    const int64_t side = side_of(e), n = e->features;
    double *all = NULL, *m, *x, *scales;
    LH_TRY_DONE(lh_calloc(&all, side * side + n * n + 2 * n, sizeof *all));
    m = all + side * side;
    x = m + n * n;
    scales = x + n;
    lh_exec_fetch(e->exec, all, matrix_of(e, layer, head), side * side * (int64_t)sizeof *all);
    LH_TRY_DONE(lh_exec_take(e->exec));
    *explained = -1;
    if (entries_of(all, side) == 0) goto done;
    scale(all, side, ridge, m, x, scales);
    if (!lh_cholesky(m, n))
        LH_FAIL_DONE(LH_EINPUT,
                     "layer %lld: the entries of a KV head give no weights: the texts are too short, or the model's "
                     "weights are damaged ('longhaul verify')",
                     (long long)layer);
    lh_cholesky_solve(m, n, x);
    for (int64_t a = 0; a < n; a++) {
        x[a] /= scales[a];
        weights[a] = (float)x[a];
    }
    *explained = (float)explained_by(all, side, x);
done:
    lh_free(all);
    return st;
}
