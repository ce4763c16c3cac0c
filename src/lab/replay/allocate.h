/* allocate.h - one budget divided among units (KV heads, or layers) by their loss curves: losses as a function of the
 * share that a unit keeps. Marginal gains are taken in order, on the lower convex hull of every curve, until the budget
 * is spent (LU-KV, arXiv 2602.08585; the head budgets of attention matching, arXiv 2602.16284). On the hulls this
 * has the least sum of losses. */
#ifndef LH_LAB_REPLAY_ALLOCATE_H
#define LH_LAB_REPLAY_ALLOCATE_H

#include "base/status.h"

/* Shares are multiples of the mean budget of a unit. */
typedef struct lh_loss_curves {
    int64_t units, points;
    const double *shares; /* [points] ascending, 1 among them */
    const double *losses; /* [units, points], finite */
    double least;         /* share that every unit gets, at most 1; at least the first point */
} lh_loss_curves;

/* shares: [units], with the mean 1. Equal gains go to the lower unit; what is less than the next step, to the unit
 * whose curve falls most by it; what nobody gains by, to all alike. Never worse than 1 for every unit. */
lh_status lh_curves_allocate(const lh_loss_curves *curves, double *shares);

/* The sum of the losses with these shares; straight between points. shares NULL: 1 for every unit. */
double lh_curves_loss(const lh_loss_curves *curves, const double *shares);

#endif
