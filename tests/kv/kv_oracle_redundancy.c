/* kv_oracle_redundancy.c - redundancy of keys (evict/add_redundancy.c), written down again in double from the code of
 * R-KV (arXiv 2505.24133). */
#include <math.h>

#include "base/mem.h"
#include "kv_oracle.h"

static const double CLOSE = 1e-5; /* cosines of floats may lie on either side of 0.5 */

static double norm_of(const double *x, int64_t dim)
{
    double sum = 0;
    for (int64_t i = 0; i < dim; i++) sum += x[i] * x[i];
    return sqrt(sum) + 1e-8;
}

/* Adds row i of cosines, [n], to the sums: 0 for itself, and for the last that is above 0.5, or the first entry. */
static void add_row(const double *row, int64_t n, int64_t i, oracle_number *sums)
{
    int64_t last = 0;
    for (int64_t j = 0; j < n; j++)
        if (j != i && row[j] > 0.5) last = j;
    for (int64_t j = 0; j < n; j++) {
        if (j != i && j != last) sums[j].x += row[j];
        sums[j].error += 1e-6;
    }
    /* an entry that may count as similar or not decides about itself and the one before */
    for (int64_t j = 0; j < n; j++) {
        if (j == i || fabs(row[j] - 0.5) > CLOSE || j < last) continue;
        for (int64_t k = 0; k <= j; k++) sums[k].error += fabs(row[k]);
    }
}

void oracle_redundancy(const double *keys, int64_t n, int64_t dim, oracle_number *y)
{
    double *row = oracle_alloc(n, sizeof *row), all = 0;
    for (int64_t p = 0; p < n; p++) y[p] = (oracle_number){0};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            row[j] = 0;
            for (int64_t x = 0; x < dim; x++) row[j] += keys[i * dim + x] * keys[j * dim + x];
            row[j] /= norm_of(keys + i * dim, dim) * norm_of(keys + j * dim, dim);
        }
        add_row(row, n, i, y);
    }
    for (int64_t p = 0; p < n; p++) all += exp(y[p].x / (double)n);
    for (int64_t p = 0; p < n; p++) {
        const double share = exp(y[p].x / (double)n) / all;
        y[p] = (oracle_number){share, share * (2 * y[p].error / (double)n + 1e-6)};
    }
    lh_free(row);
}
