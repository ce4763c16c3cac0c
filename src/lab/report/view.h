/* view.h - a figure as it is drawn: of its up to five dimensions one runs along the axis, one makes the series (or the
 * rows of a heat map), one the panels, and of the others one point is chosen or the mean over all is taken. */
#ifndef LH_LAB_REPORT_VIEW_H
#define LH_LAB_REPORT_VIEW_H

#include "lab/analysis/figures.h"

typedef struct lh_view {
    const lh_figure *figure;
    int x, series, panel;         /* indices of dimensions; -1: none */
    int64_t pick[LH_FIGURE_DIMS]; /* of the other dimensions: the point, or -1 for the mean over all */
} lh_view;

/* The first view of a figure. Policies that are on no axis make the panels; of other dimensions on no axis the point in
 * the middle is chosen if they are budgets or have values, else the mean is taken. */
void lh_view_init(lh_view *view, const lh_figure *figure);

/* Number of points of a dimension of the view; 1 for none. */
int64_t lh_view_count(const lh_view *view, int dim);

/* NAN: none, or none that is finite among those that the mean is taken over. */
double lh_view_value(const lh_view *view, int64_t panel, int64_t series, int64_t x);

/* Smallest and largest value, widening *low and *high; begin with INFINITY and -INFINITY. */
void lh_view_range(const lh_view *view, double *low, double *high);

/* "mean over 30 layers, budget 10%": what was done with the dimensions that are not drawn. Appended. */
lh_status lh_view_note(const lh_view *view, lh_buf *out);

/* The name of point `i` of a dimension, appended: its label, its value or its number. */
lh_status lh_point_text(const lh_figure_dim *dim, int64_t i, lh_buf *out);

/* A value with three significant digits, appended; shares and units such as "% of the prompt" as percentages; "" for
 * NAN. */
lh_status lh_value_text(double value, const char *unit, lh_buf *out);

#endif
