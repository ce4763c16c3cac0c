/* Leverage scores by their definition (arXiv 2507.08143): from the Gram matrix of the centred keys. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kv_oracle.h"

/* Solves m x = b by elimination, with pivots; both are overwritten. */
static void solve(double *m, double *b, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * n + c]) > fabs(m[best * n + c])) best = r;
        for (int64_t i = 0; i < n; i++) {
            double swap = m[c * n + i];
            m[c * n + i] = m[best * n + i], m[best * n + i] = swap;
        }
        double swap = b[c];
        b[c] = b[best], b[best] = swap;
        for (int64_t r = 0; r < n; r++) {
            double by = r == c ? 0 : m[r * n + c] / m[c * n + c];
            for (int64_t i = c; i < n && by != 0; i++) m[r * n + i] -= by * m[c * n + i];
            b[r] -= by * b[c];
        }
    }
    for (int64_t c = 0; c < n; c++) b[c] /= m[c * n + c];
}

void oracle_leverage(const double *keys, int64_t n, int64_t dim, double *y)
{
    double *x = oracle_alloc(n * dim, sizeof *x), *gram = oracle_alloc(2 * dim * dim, sizeof *gram),
           *copy = gram + dim * dim, *b = oracle_alloc(dim, sizeof *b);
    for (int64_t i = 0; i < dim; i++) {
        double mean = 0;
        for (int64_t p = 0; p < n; p++) mean += keys[p * dim + i] / (double)n;
        for (int64_t p = 0; p < n; p++) x[p * dim + i] = keys[p * dim + i] - mean;
    }
    for (int64_t i = 0; i < dim; i++)
        for (int64_t j = 0; j < dim; j++) {
            gram[i * dim + j] = i == j ? 0.01 : 0;
            for (int64_t p = 0; p < n; p++) gram[i * dim + j] += x[p * dim + i] * x[p * dim + j];
        }
    for (int64_t p = 0; p < n; p++) {
        memcpy(copy, gram, (size_t)(dim * dim) * sizeof *copy);
        memcpy(b, x + p * dim, (size_t)dim * sizeof *b);
        solve(copy, b, dim);
        y[p] = 0;
        for (int64_t i = 0; i < dim; i++) y[p] += b[i] * x[p * dim + i];
    }
    lh_free(x);
    lh_free(gram);
    lh_free(b);
}
