/* svg_impl.h - inside of svg*.c: the box of a panel, its axes, and one function for each view. */
#ifndef LH_LAB_REPORT_SVG_IMPL_H
#define LH_LAB_REPORT_SVG_IMPL_H

#include "lab/report/scale.h"
#include "lab/report/svg.h"

enum { LH_SVG_WIDTH = 640, LH_SVG_CHAR = 6, LH_SVG_LINE = 13 };

/* A panel: where it lies and what of it is drawn. */
typedef struct lh_svg_panel {
    const lh_svg *svg;
    int64_t panel;
    double left, right, top, bottom; /* of the plot, without the axes' texts */
    double below;                    /* from there to the name of the axis below */
    int alone;                       /* 1: no others, so that there is room for names beside the lines */
} lh_svg_panel;

static inline const lh_figure_dim *lh_svg_dim(const lh_svg_panel *p, int dim)
{
    return &p->svg->view->figure->dims[dim];
}

/* Append text at a point, `anchor` being start, middle or end; at most `limit` characters of it. */
typedef struct lh_svg_text {
    double x, y;
    const char *anchor, *classes;
    int limit, slant; /* slant: 1 for text that rises to the right */
} lh_svg_text;
lh_status lh_svg_put_text(lh_buf *out, const lh_svg_text *place, const char *text);

/* The axis below: the points of x, on `scale` or, with NULL, in cells of one width. At the left: values, with lines
 * across. */
lh_status lh_svg_axis_below(const lh_svg_panel *p, const lh_scale *scale, lh_buf *out);
lh_status lh_svg_axis_left(const lh_svg_panel *p, const lh_scale *scale, lh_buf *out);

/* Number of characters of the longest point of a dimension, and of a text. */
int lh_svg_longest(const lh_figure_dim *dim);
int lh_svg_chars(const char *text);

lh_status lh_svg_curves(const lh_svg_panel *p, lh_buf *out);
lh_status lh_svg_bars(const lh_svg_panel *p, lh_buf *out);
lh_status lh_svg_heatmap(const lh_svg_panel *p, lh_buf *out);

/* The bar of colours of heat maps, at the top right of the whole. */
lh_status lh_svg_colours(const lh_svg *svg, lh_buf *out);

#endif
