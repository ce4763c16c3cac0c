/* gains.h - what an entry more is worth to a head, from the curve of what the head's output loses. */
#ifndef LH_EVICT_GAINS_H
#define LH_EVICT_GAINS_H

#include "base/hull.h"

/* A curve has the loss where none of the competing entries stay, then where a 1024th of them, the best, and so on in
 * doubles, up to all of them. */
enum { LH_CURVE_POINTS = 12 };

/* The number of entries, of `room`, at a point of the curve. */
int64_t lh_curve_entries(int64_t room, int64_t point);

/* Gains at the points of a curve, losses[LH_CURVE_POINTS]: what the loss falls by an entry, the slope of the curve's
 * lower convex hull, taken between the middles of the hull's edges. They fall strictly from the first entry to the
 * last one, which gains nothing, so that entries in the order of their gains are in the order of their scores. */
void lh_gains_of_losses(int64_t room, const float *losses, float *gains);

#endif
