/* svg.h - a figure as static SVG: what the page shows without scripts. Colours are classes of page.css. */
#ifndef LH_LAB_REPORT_SVG_H
#define LH_LAB_REPORT_SVG_H

#include "lab/report/palette.h"
#include "lab/report/samples.h"
#include "lab/report/view.h"

enum { LH_SVG_PANELS = 6, LH_SVG_LEVELS = 16 };

typedef struct lh_svg {
    const lh_view *view;
    const lh_palette *palette;
    const lh_samples *samples; /* whose filled cells are hollow points; NULL: none */
    double low, high;          /* of the values: of one range where several figures lie side by side */
} lh_svg;

/* Append the figure; nothing for a table. At most LH_SVG_PANELS panels are drawn. */
lh_status lh_svg_draw(const lh_svg *svg, lh_buf *out);

#endif
