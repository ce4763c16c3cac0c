/* cholesky.h - symmetric positive matrices: m = LL', and what follows from it. */
#ifndef LH_BASE_CHOLESKY_H
#define LH_BASE_CHOLESKY_H

#include <stdint.h>

/* The lower triangle of m [n, n] becomes L. 0: m is not positive, or not finite. */
int lh_cholesky(double *m, int64_t n);

/* x = (LL')^-1 x. */
void lh_cholesky_solve(const double *l, int64_t n, double *x);

#endif
