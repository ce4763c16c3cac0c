/* figures.h - figures of an analysis: labelled arrays of up to five dimensions with units, each a group of an analysis
 * file (HDF5, kind `analysis`). Every analysis writes its figures here; report draws them without knowing their
 * meaning. Files are foreign: counts, names, labels and shapes are checked, and messages name the figure. */
#ifndef LH_LAB_ANALYSIS_FIGURES_H
#define LH_LAB_ANALYSIS_FIGURES_H

#include <stdint.h>

#include "base/h5.h"

enum { LH_FIGURE_DIMS = 5, LH_FIGURE_NAME = 64 };

/* One dimension. Its points have labels or values; with neither they are numbered from 0. */
typedef struct lh_figure_dim {
    const char *name; /* "policy", "budget", "layer", "head", "position", "step", … */
    const char *unit; /* of values; NULL: none */
    int64_t count;
    const char *const *labels; /* [count], or NULL */
    const double *values;      /* [count], finite, or NULL */
} lh_figure_dim;

typedef enum lh_figure_view { LH_VIEW_CURVES, LH_VIEW_HEATMAP, LH_VIEW_BARS, LH_VIEW_TABLE, LH_VIEWS } lh_figure_view;

typedef struct lh_figure {
    const char *name;   /* of its group: a to z, digits and hyphens, such as "perturbation-l2" */
    const char *title;  /* "Output perturbation, L2" */
    const char *about;  /* one or two sentences: the computation, and the better direction */
    const char *unit;   /* of the values: "share of 1", "" */
    const char *source; /* the figure of the paper: "CriticalKV, arXiv 2502.03805, section 4, figure 5", or "" */
    lh_figure_view view;
    const char *x, *y; /* names of dimensions, or "". Curves and bars: along x, one series for each point of y; heat
                        * map: columns and rows. The other dimensions are chosen from; first the mean over all is shown,
                        * of those with values the point in the middle. */
    int better;        /* 1: more is better, -1: less is better, 0: neither */
    int dim_count;
    lh_figure_dim dims[LH_FIGURE_DIMS];
    const float *values; /* row by row over the dimensions; not finite: none */
} lh_figure;

const char *lh_figure_view_name(lh_figure_view view);              /* "curves", "heatmap", "bars", "table" */
int64_t lh_figure_count(const lh_figure *figure);                  /* of values: the product of the dimensions */
int lh_figure_dim_find(const lh_figure *figure, const char *name); /* index; -1: none */

/* The group /figures/NAME: the array `values`, the text `dims` (a JSON array) and attributes. A figure that could not
 * be read back is LH_EWRITE. NULL texts are written as "". */
lh_status lh_figure_write(const lh_figure *figure, lh_h5 *h5);

/* All figures of a file, in the order in which they were written; zero figures are fine. Owned copies; texts are never
 * NULL. */
typedef struct lh_figures {
    lh_figure *list;
    int64_t count;
} lh_figures;

lh_status lh_figures_read(lh_figures *out, lh_h5 *h5);

/* Append a copy of a figure that keeps the rules above. */
lh_status lh_figures_append(lh_figures *figures, const lh_figure *figure);
void lh_figures_clear(lh_figures *figures);

#endif
