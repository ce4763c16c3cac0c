/* loss_curves.h - the gain of a further entry to a head, from the curve of the loss of the head's output. */
#ifndef LH_EVICT_LOSS_CURVES_H
#define LH_EVICT_LOSS_CURVES_H

#include "base/hull.h"

/* A curve has the losses with none of the competing entries kept, with the best 1024th of them, and so on in doubles,
 * up to all of them. */
enum { LH_CURVE_POINTS = 12 };

/* The number of entries, of `room`, at a point of the curve. */
int64_t lh_curve_entries(int64_t room, int64_t point);

/* Gains at the points of a curve, losses[LH_CURVE_POINTS]: how much the loss falls with a further entry, the slope of
 * the curve's lower convex hull, interpolated between the middles of the hull's edges. They fall strictly from the
 * first entry to the last one, which gains nothing, so that the order of gains is the order of scores. */
void lh_gains_of_losses(int64_t room, const float *losses, float *gains);

#endif
