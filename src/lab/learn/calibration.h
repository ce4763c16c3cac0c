/* calibration.h - one scale for two scores of the entries of all heads and layers, from their histograms: a line that
 * maps the first score to the second where entries have ranks of the same worth. */
#ifndef LH_LAB_LEARN_CALIBRATION_H
#define LH_LAB_LEARN_CALIBRATION_H

#include <stdint.h>

#include "comm/comm.h"

enum { LH_CALIBRATION_BINS = 8192 };

/* Counts of logarithms: a bin for each part of a range, the first and the last bin also for what lies outside. Counts
 * are integers: they are the same on any number of ranks. */
typedef struct lh_calibration {
    int64_t first[LH_CALIBRATION_BINS], second[LH_CALIBRATION_BINS];
} lh_calibration;

void lh_calibration_add(int64_t bins[LH_CALIBRATION_BINS], double x);

/* Collective: the counts of all ranks. */
lh_status lh_calibration_share(lh_calibration *c, lh_comm *comm);

/* The score above which the given share of the counts lies, between 0 and 1. */
double lh_calibration_quantile(const int64_t bins[LH_CALIBRATION_BINS], double share);

/* Counts of scores of at least x, to a bin. */
int64_t lh_calibration_above(const int64_t bins[LH_CALIBRATION_BINS], double x);

/* second = slope x first + constant, by least squares through the points at which both scores give turns to entries:
 * where the first takes `share` of the turns, an entry among the best f by it is worth one among the best
 * f x (1 - share) / share by the second. */
typedef struct lh_calibration_line {
    double slope, constant;
} lh_calibration_line;
lh_calibration_line lh_calibration_fit(const lh_calibration *c, double share);

#endif
