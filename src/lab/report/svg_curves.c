/* svg_curves.c - curves with their names at the right end, and bars. */
#include <math.h>
#include <stdio.h>

#include "base/minmax.h"
#include "lab/report/svg_impl.h"

enum { MARKED_POINTS = 24, NAME_CHARS = 17 };

/* Markers around a point, by colour: circle, square, triangle, diamond, cross, triangle downwards. */
static const char *const markers[LH_COLOURS] = {"m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0",
                                                "m-3-3h6v6h-6z",
                                                "m0-4l4 7h-8z",
                                                "m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",
                                                "m-3.5-3.5l7 7m0-7l-7 7",
                                                "m0 4l4-7h-8z"};

/* The points of a series, those of filled cells hollow. */
static lh_status put_marks(const lh_svg_panel *p, int64_t series, const lh_scale *x, const lh_scale *y, lh_buf *out)
{
    const lh_view *view = p->svg->view;
    const lh_figure_dim *dim = lh_svg_dim(p, view->x);
    const int64_t ink = view->series < 0 ? 0 : lh_ink(p->svg->palette, lh_svg_dim(p, view->series), series);
    char classes[LH_INK_CLASS];
    lh_ink_class(ink, classes);
    for (int hollow = 0; hollow < 2; hollow++) {
        int begun = 0;
        for (int64_t i = 0; i < dim->count; i++) {
            const double v = lh_view_value(view, p->panel, series, i);
            if (!isfinite(v) || lh_samples_filled_at(p->svg->samples, view, series, i) != hollow) continue;
            if (!begun) LH_TRY(lh_buf_printf(out, "<path class=\"mark%s %s\" d=\"", hollow ? " hollow" : "", classes));
            begun = 1;
            LH_TRY(lh_buf_printf(out, "M%.1f %.1f%s", lh_scale_at(x, lh_point_value(dim, i)), lh_scale_at(y, v),
                                 markers[ink % LH_COLOURS]));
        }
        if (begun) LH_TRY(lh_buf_puts(out, "\"/>"));
    }
    return LH_OK;
}

static lh_status put_line(const lh_svg_panel *p, int64_t series, const lh_scale *x, const lh_scale *y, lh_buf *out)
{
    const lh_view *view = p->svg->view;
    const lh_figure_dim *dim = lh_svg_dim(p, view->x);
    const int64_t ink = view->series < 0 ? 0 : lh_ink(p->svg->palette, lh_svg_dim(p, view->series), series);
    char classes[LH_INK_CLASS];
    int down = 0;
    lh_ink_class(ink, classes);
    LH_TRY(lh_buf_printf(out, "<path class=\"line %s\" d=\"", classes));
    for (int64_t i = 0; i < dim->count; i++) {
        const double v = lh_view_value(view, p->panel, series, i);
        if (isfinite(v))
            LH_TRY(lh_buf_printf(out, "%c%.1f %.1f", down ? 'L' : 'M', lh_scale_at(x, lh_point_value(dim, i)),
                                 lh_scale_at(y, v)));
        down = isfinite(v);
    }
    LH_TRY(lh_buf_puts(out, "\"/>"));
    if (dim->count > MARKED_POINTS || ink < 0 || ink >= LH_RAMP) return LH_OK;
    return put_marks(p, series, x, y, out);
}

/* Where each series ends, from the top, so far apart that names do not touch; those that end nowhere come last. */
typedef struct line_end {
    int64_t series;
    double y;
} line_end;

static void spread_ends(line_end *ends, int64_t n, double bottom)
{
    for (int64_t i = 1; i < n; i++) {
        const line_end moved = ends[i];
        int64_t at = i;
        for (; at > 0 && ends[at - 1].y > moved.y; at--) ends[at] = ends[at - 1];
        ends[at] = moved;
    }
    for (int64_t i = 1; i < n; i++) ends[i].y = fmax(ends[i].y, ends[i - 1].y + LH_SVG_LINE);
    double limit = bottom;
    for (int64_t i = n - 1; i >= 0 && ends[i].y > limit; i--, limit -= LH_SVG_LINE) ends[i].y = limit;
}

static lh_status put_names(const lh_svg_panel *p, const lh_scale *y, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_view *view = p->svg->view;
    const lh_figure_dim *dim = lh_svg_dim(p, view->series);
    line_end *ends = NULL;
    lh_buf text = {0};
    char classes[LH_INK_CLASS], both[LH_INK_CLASS + 8];
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&ends, dim->count, sizeof *ends));
    for (int64_t s = 0; s < dim->count; s++) {
        double v = NAN;
        for (int64_t i = lh_view_count(view, view->x) - 1; i >= 0 && !isfinite(v); i--)
            v = lh_view_value(view, p->panel, s, i);
        if (isfinite(v)) ends[n++] = (line_end){s, lh_scale_at(y, v)};
    }
    if (n * LH_SVG_LINE > p->bottom - p->top + 20) n = 0; /* too many to be named here: the table has them */
    spread_ends(ends, n, p->bottom);
    for (int64_t i = 0; i < n; i++) {
        text.bytes = 0;
        LH_TRY_DONE(lh_point_text(dim, ends[i].series, &text));
        lh_ink_class(lh_ink(p->svg->palette, dim, ends[i].series), classes);
        snprintf(both, sizeof both, "t end %s", classes);
        LH_TRY_DONE(
            lh_svg_put_text(out, &(lh_svg_text){p->right + 9, ends[i].y + 4, "start", both, NAME_CHARS, 0}, text.data));
    }
done:
    lh_buf_clear(&text);
    lh_free(ends);
    return st;
}

lh_status lh_svg_curves(const lh_svg_panel *p, lh_buf *out)
{
    const lh_view *view = p->svg->view;
    lh_scale x, y;
    lh_scale_of_dim(&x, lh_svg_dim(p, view->x));
    x.from = p->left;
    x.to = p->right;
    lh_scale_of_values(&y, p->svg->low, p->svg->high, view->figure->unit);
    y.from = p->bottom;
    y.to = p->top;
    LH_TRY(lh_svg_axis_left(p, &y, out));
    LH_TRY(lh_svg_axis_below(p, &x, out));
    for (int64_t s = 0; s < lh_view_count(view, view->series); s++) LH_TRY(put_line(p, s, &x, &y, out));
    if (p->alone && view->series >= 0) LH_TRY(put_names(p, &y, out));
    return LH_OK;
}

lh_status lh_svg_bars(const lh_svg_panel *p, lh_buf *out)
{
    const lh_view *view = p->svg->view;
    const lh_figure_dim *dim = lh_svg_dim(p, view->x);
    const int64_t series = lh_view_count(view, view->series);
    const double step = (p->right - p->left) / (double)dim->count, wide = 0.8 * step / (double)series;
    lh_scale y;
    char classes[LH_INK_CLASS];
    lh_scale_of_values(&y, fmin(p->svg->low, 0), p->svg->high, view->figure->unit);
    y.from = p->bottom;
    y.to = p->top;
    LH_TRY(lh_svg_axis_left(p, &y, out));
    for (int64_t i = 0; i < dim->count; i++)
        for (int64_t s = 0; s < series; s++) {
            const double v = lh_view_value(view, p->panel, s, i);
            if (!isfinite(v)) continue;
            const double at = lh_scale_at(&y, v), zero = lh_scale_at(&y, fmax(y.low, 0));
            lh_ink_class(view->series >= 0         ? lh_ink(p->svg->palette, lh_svg_dim(p, view->series), s)
                         : lh_dim_is_policies(dim) ? lh_ink(p->svg->palette, dim, i)
                                                   : 0,
                         classes);
            LH_TRY(lh_buf_printf(out, "<path class=\"bar %s\" d=\"M%.1f %.1fh%.1fV%.1fh-%.1fz\"/>", classes,
                                 p->left + step * ((double)i + 0.1) + wide * (double)s, at, fmax(wide - 0.5, 0.5), zero,
                                 fmax(wide - 0.5, 0.5)));
        }
    LH_TRY(lh_svg_axis_below(p, NULL, out));
    if (p->alone && view->series >= 0) LH_TRY(put_names(p, &y, out));
    return LH_OK;
}
