#include "base/hull.h"

/* 1 if b lies on or above the line from a to c. */
static int is_above(const lh_curve_point *a, const lh_curve_point *b, const lh_curve_point *c)
{
    return (b->y - a->y) * (c->x - a->x) >= (c->y - a->y) * (b->x - a->x);
}

int64_t lh_falling_hull(const lh_curve_point *points, int64_t n, int64_t *at)
{
    int64_t count = 0, falls = 1;
    for (int64_t i = 0; i < n; i++) {
        if (count > 0 && points[i].x <= points[at[count - 1]].x) continue;
        while (count > 1 && is_above(&points[at[count - 2]], &points[at[count - 1]], &points[i])) count--;
        at[count++] = i;
    }
    while (falls < count && points[at[falls]].y < points[at[falls - 1]].y) falls++;
    return falls < count ? falls : count;
}
