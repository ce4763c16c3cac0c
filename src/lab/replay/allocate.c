/* allocate.c - the greedy allocation of a budget on the lower convex hulls of loss curves. */
#include "lab/replay/allocate.h"

#include <math.h>
#include <stdlib.h>

#include "base/hull.h"
#include "base/mem.h"

/* A stretch of a unit's hull: `width` more of the budget reduces its loss by `gain` for each. */
typedef struct step {
    int64_t unit;
    double width, gain;
} step;

/* The loss of a unit at a share, on its curve. */
static lh_curve_point point_at(const lh_loss_curves *c, int64_t unit, double share)
{
    const double *loss = c->losses + unit * c->points, *at = c->shares;
    int64_t i = 0;
    if (share <= at[0]) return (lh_curve_point){share, loss[0]};
    while (i < c->points && at[i] < share) i++;
    if (i == c->points) return (lh_curve_point){share, loss[i - 1]};
    const double part = (share - at[i - 1]) / (at[i] - at[i - 1]);
    return (lh_curve_point){share, loss[i - 1] + part * (loss[i] - loss[i - 1])};
}

double lh_curves_loss(const lh_loss_curves *c, const double *shares)
{
    double sum = 0;
    for (int64_t u = 0; u < c->units; u++) sum += point_at(c, u, shares ? shares[u] : 1).y;
    return sum;
}

static double first_share(const lh_loss_curves *c)
{
    return fmin(1, fmax(c->least, c->shares[0]));
}

/* The lower convex hull of a unit's curve from the first share on, as far as it falls: steps, the number of them. Room
 * for one point more than the curve has: points, at. */
static int64_t hull_steps(const lh_loss_curves *c, int64_t unit, lh_curve_point *points, int64_t *at, step *steps)
{
    int64_t n = 0;
    points[n++] = point_at(c, unit, first_share(c));
    for (int64_t i = 0; i < c->points; i++)
        if (c->shares[i] > points[0].x) points[n++] = (lh_curve_point){c->shares[i], c->losses[unit * c->points + i]};
    n = lh_falling_hull(points, n, at) - 1;
    for (int64_t i = 0; i < n; i++) {
        const lh_curve_point *from = &points[at[i]], *to = &points[at[i + 1]];
        steps[i] = (step){unit, to->x - from->x, (from->y - to->y) / (to->x - from->x)};
    }
    return n;
}

/* The largest gain first; those of a unit fall. */
static int by_gain(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* The unit whose loss falls most with so much more. Where curves are convex it is that of the next step. */
static int64_t best_of(const lh_loss_curves *c, const double *shares, double more)
{
    int64_t best = 0;
    double gain = -1;
    for (int64_t u = 0; u < c->units; u++) {
        const double falls = point_at(c, u, shares[u]).y - point_at(c, u, shares[u] + more).y;
        if (falls > gain) best = u, gain = falls;
    }
    return best;
}

lh_status lh_curves_allocate(const lh_loss_curves *c, double *shares)
{
    lh_status st = LH_OK;
    step *steps = NULL;
    lh_curve_point *points = NULL;
    int64_t n = 0, *at = NULL;
    double left = (double)c->units * (1 - first_share(c));
    LH_TRY_DONE(lh_calloc(&steps, c->units * (c->points + 1), sizeof *steps));
    LH_TRY_DONE(lh_calloc(&points, c->points + 1, sizeof *points));
    LH_TRY_DONE(lh_calloc(&at, c->points + 1, sizeof *at));
    for (int64_t u = 0; u < c->units; u++) {
        shares[u] = first_share(c);
        n += hull_steps(c, u, points, at, steps + n);
    }
    qsort(steps, (size_t)n, sizeof *steps, by_gain);
    for (int64_t i = 0; i < n && left > 0; i++) {
        if (steps[i].width > left) {
            shares[best_of(c, shares, left)] += left;
            left = 0;
            break;
        }
        shares[steps[i].unit] += steps[i].width;
        left -= steps[i].width;
    }
    for (int64_t u = 0; u < c->units; u++) shares[u] += left / (double)c->units;
    if (lh_curves_loss(c, shares) > lh_curves_loss(c, NULL))
        for (int64_t u = 0; u < c->units; u++) shares[u] = 1;
done:
    lh_free(steps);
    lh_free(points);
    lh_free(at);
    return st;
}
