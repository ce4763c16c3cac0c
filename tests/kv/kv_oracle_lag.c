/* kv_oracle_lag.c - parts of a text compared with the next part (evict/source_lag.c), written down again in double. */
#include <math.h>

#include "base/mem.h"
#include "kv_oracle.h"

static const double ROUNDING = 1e-5;

void oracle_add_lag_weights(const double *x, int64_t dim, int64_t first, int64_t n, double *e)
{
    double *deviations = oracle_alloc(n, sizeof *deviations), all = 0;
    const double *part = x + first * dim, *next = part + n * dim;
    for (int64_t p = 0; p < n; p++) {
        double mean = 0, squares = 0;
        for (int turn = 0; turn < 2; turn++)
            for (int64_t i = 0; i < dim; i++) {
                double least = next[i], most = next[i];
                for (int64_t t = 1; t < n; t++) {
                    least = fmin(least, next[t * dim + i]);
                    most = fmax(most, next[t * dim + i]);
                }
                double scaled = most > least ? (part[p * dim + i] - least) / (most - least) : 0;
                if (turn)
                    squares += (scaled - mean) * (scaled - mean);
                else
                    mean += scaled / (double)dim;
            }
        deviations[p] = sqrt(squares / (double)(dim - 1));
        all += exp(deviations[p]);
    }
    for (int64_t p = 0; p < n; p++) e[p] += exp(deviations[p]) / all / 2;
    lh_free(deviations);
}

void oracle_rank_part(const double *e, int64_t n, oracle_number *scores)
{
    for (int64_t p = 0; p < n; p++)
        for (int64_t t = 0; t < n; t++) {
            double off = e[t] - e[p];
            scores[p].x += (off < 0 || (off == 0 && t > p)) / (double)n;
            scores[p].error += (t != p && fabs(off) < 10 * ROUNDING * e[p]) / (double)n;
        }
}
