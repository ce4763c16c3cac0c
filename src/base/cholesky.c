#include "base/cholesky.h"

#include <math.h>

int lh_cholesky(double *m, int64_t n)
{
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b <= a; b++) {
            double sum = m[a * n + b];
            for (int64_t c = 0; c < b; c++) sum -= m[a * n + c] * m[b * n + c];
            if (a == b && !(sum > 0.0 && isfinite(sum))) return 0;
            m[a * n + b] = a == b ? sqrt(sum) : sum / m[b * n + b];
        }
    return 1;
}

void lh_cholesky_solve(const double *l, int64_t n, double *x)
{
    for (int64_t a = 0; a < n; a++) {
        for (int64_t c = 0; c < a; c++) x[a] -= l[a * n + c] * x[c];
        x[a] /= l[a * n + a];
    }
    for (int64_t a = n - 1; a >= 0; a--) {
        for (int64_t c = a + 1; c < n; c++) x[a] -= l[c * n + a] * x[c];
        x[a] /= l[a * n + a];
    }
}
