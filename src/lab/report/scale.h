/* scale.h - axes of a figure: from values to coordinates, and where the ticks are. */
#ifndef LH_LAB_REPORT_SCALE_H
#define LH_LAB_REPORT_SCALE_H

#include "lab/analysis/figures.h"

enum { LH_TICKS = 10 };

typedef struct lh_scale {
    int log;          /* 1: logarithmic */
    double low, high; /* of values, low < high */
    double from, to;  /* their coordinates */
} lh_scale;

/* For the points of a dimension: its values, logarithmic where they are positive, span more than a factor of 30
 * and are not even themselves; labels and unnumbered points are evenly spaced. */
void lh_scale_of_dim(lh_scale *scale, const lh_figure_dim *dim);

/* For values from `low` to `high` (not finite: none): from 0 where that is below them, with round ends; logarithmic for
 * positive ones that span more than a factor of 30 and are no shares. */
void lh_scale_of_values(lh_scale *scale, double low, double high, const char *unit);

double lh_scale_at(const lh_scale *scale, double value);

/* The value of point `i` of a dimension on its scale. */
double lh_point_value(const lh_figure_dim *dim, int64_t i);

/* 1, 2 or 5 times a power of ten, at least `least`, which is positive. */
double lh_round_step(double least);

/* Round values between the ends; returns how many, at most LH_TICKS. */
int lh_scale_ticks(const lh_scale *scale, double ticks[LH_TICKS]);

#endif
