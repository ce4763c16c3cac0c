/* hull.h - the lower convex hull of a curve. */
#ifndef LH_BASE_HULL_H
#define LH_BASE_HULL_H

#include <stdint.h>

typedef struct lh_curve_point {
    double x, y;
} lh_curve_point;

/* The vertices of the lower convex hull of n points, as far as it falls, from the first point on: at[n], their indices;
 * returns how many. x never falls; of points with the same x those after the first are left out. */
int64_t lh_falling_hull(const lh_curve_point *points, int64_t n, int64_t *at);

#endif
