/* hull.h - the lower convex hull of a curve. */
#ifndef LH_BASE_HULL_H
#define LH_BASE_HULL_H

#include <stdint.h>

typedef struct lh_curve_point {
    double x, y;
} lh_curve_point;

/* The vertices of the lower convex hull of n points from the first point on, while it falls: at[n], their indices;
 * returns their number. x must not fall; of points with the same x only the first counts. */
int64_t lh_falling_hull(const lh_curve_point *points, int64_t n, int64_t *at);

#endif
