#include "evict/gains.h"

#include <math.h>

/* Where a curve does not fall: what keeps gains falling, far below what an output may lose. */
static const double NOTHING = 1e-20;

int64_t lh_curve_entries(int64_t room, int64_t point)
{
    const int64_t halvings = LH_CURVE_POINTS - 1 - point;
    return point == 0 ? 0 : (room + (INT64_C(1) << halvings >> 1)) >> halvings;
}

/* Middles of the hull's edges and the slopes there; before them the slope of the first edge and as much again, after
 * them 0 at the end of the room. Returns how many. */
static int64_t edges_of(const lh_curve_point *curve, double room, lh_curve_point *edges)
{
    int64_t at[LH_CURVE_POINTS], vertices = lh_falling_hull(curve, LH_CURVE_POINTS, at), n = 1;
    for (int64_t i = 1; i < vertices; i++) {
        const lh_curve_point *a = &curve[at[i - 1]], *b = &curve[at[i]];
        edges[n++] = (lh_curve_point){(a->x + b->x) / 2, (a->y - b->y) / (b->x - a->x)};
    }
    edges[0] = (lh_curve_point){0, n > 1 ? 2 * edges[1].y : 0};
    edges[n++] = (lh_curve_point){room, 0};
    return n;
}

static double slope_at(const lh_curve_point *edges, int64_t n, double x)
{
    int64_t i = 1;
    while (i < n - 1 && edges[i].x < x) i++;
    const lh_curve_point *a = &edges[i - 1], *b = &edges[i];
    return b->x > a->x ? fmax(0, a->y + (b->y - a->y) * (x - a->x) / (b->x - a->x)) : b->y;
}

void lh_gains_of_losses(int64_t room, const float *losses, float *gains)
{
    lh_curve_point curve[LH_CURVE_POINTS], edges[LH_CURVE_POINTS + 1];
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++)
        curve[p] = (lh_curve_point){(double)lh_curve_entries(room, p), losses[p]};
    const int64_t n = edges_of(curve, (double)room, edges);
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++) {
        const double x = curve[p].x, rest = room ? 1 - x / (double)room : 0;
        gains[p] = (float)(slope_at(edges, n, x) + NOTHING * rest);
    }
}
