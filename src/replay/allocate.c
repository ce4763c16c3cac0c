/* allocate.c - the greedy allocation of a budget on the lower convex hulls of loss curves. */
#include "replay/allocate.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

/* A stretch of a unit's hull: `width` more of the budget reduces its loss by `gain` for each. */
typedef struct step {
    int64_t unit;
    double width, gain;
} step;

typedef struct point {
    double share, loss;
} point;

/* The loss of a unit at a share, on its curve. */
static point point_at(const lh_loss_curves *c, int64_t unit, double share)
{
    const double *loss = c->losses + unit * c->points, *at = c->shares;
    int64_t i = 0;
    if (share <= at[0]) return (point){share, loss[0]};
    while (i < c->points && at[i] < share) i++;
    if (i == c->points) return (point){share, loss[i - 1]};
    const double part = (share - at[i - 1]) / (at[i] - at[i - 1]);
    return (point){share, loss[i - 1] + part * (loss[i] - loss[i - 1])};
}

double lh_curves_loss(const lh_loss_curves *c, const double *shares)
{
    double sum = 0;
    for (int64_t u = 0; u < c->units; u++) sum += point_at(c, u, shares ? shares[u] : 1).loss;
    return sum;
}

static double first_share(const lh_loss_curves *c)
{
    return fmin(1, fmax(c->least, c->shares[0]));
}

/* 1 if b lies on or above the line from a to c. */
static int is_above(const point *a, const point *b, const point *c)
{
    return (b->loss - a->loss) * (c->share - a->share) >= (c->loss - a->loss) * (b->share - a->share);
}

/* The lower convex hull of a unit's curve from the first share on, as far as it falls: steps, the number of them. */
static int64_t hull_steps(const lh_loss_curves *c, int64_t unit, point *hull, step *steps)
{
    int64_t n = 0, count = 0;
    hull[n++] = point_at(c, unit, first_share(c));
    for (int64_t i = 0; i < c->points; i++) {
        const point p = {c->shares[i], c->losses[unit * c->points + i]};
        if (p.share <= hull[0].share) continue;
        while (n > 1 && is_above(&hull[n - 2], &hull[n - 1], &p)) n--;
        hull[n++] = p;
    }
    for (int64_t i = 1; i < n && hull[i].loss < hull[i - 1].loss; i++) {
        const double width = hull[i].share - hull[i - 1].share;
        steps[count++] = (step){unit, width, (hull[i - 1].loss - hull[i].loss) / width};
    }
    return count;
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
        const double falls = point_at(c, u, shares[u]).loss - point_at(c, u, shares[u] + more).loss;
        if (falls > gain) best = u, gain = falls;
    }
    return best;
}

lh_status lh_curves_allocate(const lh_loss_curves *c, double *shares)
{
    lh_status st = LH_OK;
    step *steps = NULL;
    point *hull = NULL;
    int64_t n = 0;
    double left = (double)c->units * (1 - first_share(c));
    LH_TRY_DONE(lh_calloc(&steps, c->units * (c->points + 1), sizeof *steps));
    LH_TRY_DONE(lh_calloc(&hull, c->points + 1, sizeof *hull));
    for (int64_t u = 0; u < c->units; u++) {
        shares[u] = first_share(c);
        n += hull_steps(c, u, hull, steps + n);
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
    lh_free(hull);
    return st;
}
