/* draw.c - a panel of a figure as SVG: curves with confidence bands, bars or a heat map, with axes and names. The page
 * and the files of `--svg` hold these drawings; page.js moves their marks, by the coordinates in data attributes, and
 * chooses among the ranges of the axis that are drawn here. Styles are classes of drawing.css. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/report/report_impl.h"

enum { MARKED_POINTS = 24, LINE = 13, NAME_CHARS = 20, LABEL_CHARS = 14, LEVELS = 32, COLUMNS = 128, ROWS = 64 };
static const double CHAR = 6.2;

/* A drawing with the box of its plot, without the text of the axes. */
typedef struct plot {
    const lh_drawing *d;
    const lh_view *view;
    const lh_figure_dim *x, *series; /* series NULL: none */
    lh_html *out;
    double left, right, top, bottom, height;
    int alone, slant; /* alone: 1 for a figure without panels */
    int bands, names; /* 1 if all confidence bands are shown; if names of series stand at the ends of their lines */
    lh_scale values;  /* in the shown range */
} plot;

/* ---- text ---- */

static int64_t longest_name(const lh_figure_dim *dim)
{
    int64_t longest = 1;
    lh_buf text = {0};
    for (int64_t i = 0; i < dim->count; i++) {
        int64_t chars = 0;
        text.bytes = 0;
        if (lh_point_text(dim, i, &text) != LH_OK) break;
        for (const char *c = text.data; c && *c; c++) chars += ((unsigned char)*c & 0xC0) != 0x80;
        longest = lh_max_i64(longest, chars);
    }
    lh_buf_clear(&text);
    return lh_min_i64(longest, LABEL_CHARS);
}

static void open_text(lh_html *out, const char *classes, const char *anchor, double x, double y)
{
    lh_html_put(out, "<text class=\"t %s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", classes, anchor, x, y);
}

static void put_text(lh_html *out, const char *anchor, double x, double y, const char *text)
{
    open_text(out, "name", anchor, x, y);
    lh_html_short(out, text, 60);
    lh_html_put(out, "</text>");
}

static void put_value(lh_html *out, const char *anchor, double x, double y, double value, const char *unit)
{
    open_text(out, "", anchor, x, y);
    lh_html_value(out, value, unit);
    lh_html_put(out, "</text>");
}

/* ---- axes ---- */

/* 1 if the labels of a dimension are too long to lie side by side in `width`, and few enough to be slanted. */
static int is_slanted(const lh_figure_dim *dim, double width)
{
    const double gap = width / (double)dim->count;
    return dim->labels && (double)longest_name(dim) * CHAR > gap && gap > LINE;
}

/* Names of the points below the plot, without names that would touch the one before. */
static void put_points(const plot *p, const lh_scale *scale)
{
    const double gap = (p->right - p->left) / (double)p->x->count;
    const double least = p->slant ? LINE : (double)longest_name(p->x) * CHAR + 6;
    const int64_t step = scale || p->x->labels ? 1 : (int64_t)lh_round_step(fmax(1, least / gap));
    double last = -INFINITY;
    for (int64_t i = 0; i < p->x->count; i += step) {
        const double x = scale ? lh_scale_at(scale, lh_point_value(p->x, i)) : p->left + gap * ((double)i + 0.5);
        if (x - last < least) continue;
        last = x;
        if (p->slant)
            lh_html_put(p->out, "<text class=\"t\" text-anchor=\"end\" transform=\"translate(%.1f %.1f) rotate(-35)\">",
                        x, p->bottom + 12);
        else
            open_text(p->out, "", "middle", x, p->bottom + 15);
        lh_html_point(p->out, p->x, i, LABEL_CHARS);
        lh_html_put(p->out, "</text>");
    }
}

/* The axis below: points on `scale` or, with NULL, in cells of equal width. */
static void put_axis_below(const plot *p, const lh_scale *scale)
{
    double ticks[LH_TICKS];
    const int n = scale && !p->x->labels && p->x->count > LH_TICKS ? lh_scale_ticks(scale, ticks) : 0;
    lh_html_put(p->out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>", p->left, p->bottom, p->right);
    if (!n) put_points(p, scale);
    for (int i = 0; i < n; i++)
        put_value(p->out, "middle", lh_scale_at(scale, ticks[i]), p->bottom + 15, ticks[i],
                  p->x->unit ? p->x->unit : "");
    if (!p->alone) return;
    open_text(p->out, "name", "middle", (p->left + p->right) / 2, p->height - 4);
    lh_html_short(p->out, p->x->name, 30);
    if (p->x->unit && *p->x->unit) lh_html_put(p->out, ", ");
    lh_html_short(p->out, p->x->unit ? p->x->unit : "", 40);
    lh_html_put(p->out, "</text>");
}

/* The ranges of the axis, one of them shown: `put` draws the content of each. */
static void put_ranges(const lh_drawing *d, lh_html *out, const void *self,
                       void (*put)(const void *self, const lh_scale *range, lh_html *out))
{
    for (int r = 0; r < d->axis->count; r++) {
        const lh_scale range = {.log = d->axis->log, .low = d->axis->ranges[r].low, .high = d->axis->ranges[r].high};
        if (r != d->range && !d->live) continue;
        if (d->live) lh_html_put(out, "<g data-ends=\"%g %g\"", range.low, range.high);
        if (d->live) lh_html_put(out, r == d->range ? ">" : " class=\"hidden\">");
        put(self, &range, out);
        if (d->live) lh_html_put(out, "</g>");
    }
}

static void put_grid(const void *self, const lh_scale *range, lh_html *out)
{
    const plot *p = self;
    lh_scale scale = *range;
    double ticks[LH_TICKS];
    const int n = lh_scale_ticks(range, ticks);
    scale.from = p->bottom;
    scale.to = p->top;
    lh_html_put(out, "<path class=\"grid\" d=\"");
    for (int i = 0; i < n; i++) lh_html_put(out, "M%.1f %.1fH%.1f", p->left, lh_scale_at(&scale, ticks[i]), p->right);
    lh_html_put(out, "\"/>");
    for (int i = 0; i < n; i++)
        put_value(out, "end", p->left - 6, lh_scale_at(&scale, ticks[i]) + 4, ticks[i], p->view->figure->unit);
}

static void put_axis_left(const plot *p)
{
    put_ranges(p->d, p->out, p, put_grid);
    if (p->alone) put_text(p->out, "start", 2, 12, p->view->figure->unit);
}

/* ---- curves ---- */

/* Markers around a point, by colour: circle, square, triangle, diamond, cross, triangle downwards. */
static const char *const markers[LH_COLOURS] = {"m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0",
                                                "m-3-3h6v6h-6z",
                                                "m0-4l4 7h-8z",
                                                "m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",
                                                "m-3.5-3.5l7 7m0-7l-7 7",
                                                "m0 4l4-7h-8z"};

void lh_draw_key(const lh_palette *palette, const lh_figure_dim *dim, int64_t i, lh_html *out)
{
    char style[LH_STYLE_CLASS];
    const int64_t number = lh_series_style(palette, dim, i, style);
    lh_html_put(out,
                "<svg class=\"key %s\" viewBox=\"0 0 24 10\" width=\"24\" height=\"10\" aria-hidden=\"true\"><path "
                "class=\"line\" d=\"M1 5H23\"/>",
                style);
    if (number >= 0 && number < LH_RAMP)
        lh_html_put(out, "<path class=\"mark\" d=\"M12 5%s\"/>", markers[number % LH_COLOURS]);
    lh_html_put(out, "</svg>");
}

/* The confidence interval of a series, hidden among many: the page shows it when the pointer is on the line. */
static void put_band(const plot *p, int64_t s, const lh_scale *x)
{
    double band[2];
    int begun = 0;
    for (int side = 0; side < 2; side++)
        for (int64_t k = 0; k < p->x->count; k++) {
            const int64_t i = side ? p->x->count - 1 - k : k;
            if (!lh_samples_band(p->d->samples, p->view, s, i, band)) continue;
            if (!begun) lh_html_put(p->out, "<path class=\"band%s\" d=\"", p->bands ? "" : " hidden");
            const double v = fmin(p->values.high, fmax(p->values.low, band[!side]));
            lh_html_put(p->out, begun++ ? "L%.1f %.1f" : "M%.1f %.1f", lh_scale_at(x, lh_point_value(p->x, i)),
                        lh_scale_at(&p->values, v));
        }
    if (begun) lh_html_put(p->out, "z\"/>");
}

static void put_line(const plot *p, int64_t s, const lh_scale *x)
{
    int down = 0;
    lh_html_put(p->out, "<path class=\"line\" d=\"");
    for (int64_t i = 0; i < p->x->count; i++) {
        const double v = lh_view_value(p->view, p->d->panel, s, i);
        if (isfinite(v))
            lh_html_put(p->out, down ? "L%.1f %.1f" : "M%.1f %.1f", lh_scale_at(x, lh_point_value(p->x, i)),
                        lh_scale_at(&p->values, v));
        down = isfinite(v);
    }
    lh_html_put(p->out, "\"/>");
}

/* The points of a series; hollow points are cells that protected entries fill. */
static void put_marks(const plot *p, int64_t s, const lh_scale *x, const char *marker)
{
    for (int hollow = 0; hollow < 2; hollow++) {
        int any = !hollow;
        for (int64_t i = 0; i < p->x->count; i++) any |= lh_samples_filled_at(p->d->samples, p->view, s, i);
        if (!any) continue;
        lh_html_put(p->out, hollow ? "<path class=\"mark hollow\" d=\"" : "<path class=\"mark\" d=\"");
        for (int64_t i = 0; i < p->x->count; i++) {
            const double v = lh_view_value(p->view, p->d->panel, s, i);
            if (isfinite(v) && lh_samples_filled_at(p->d->samples, p->view, s, i) == hollow)
                lh_html_put(p->out, "M%.1f %.1f%s", lh_scale_at(x, lh_point_value(p->x, i)), lh_scale_at(&p->values, v),
                            marker);
        }
        lh_html_put(p->out, "\"/>");
    }
}

static double end_of(const plot *p, int64_t s)
{
    double v = NAN;
    for (int64_t i = p->x->count - 1; i >= 0 && !isfinite(v); i--) v = lh_view_value(p->view, p->d->panel, s, i);
    return isfinite(v) ? lh_scale_at(&p->values, v) : INFINITY;
}

enum { MAX_NAMES = 64, NEAR = 8 };

/* Where the name of each series stands, at the right end of its line; INFINITY: nowhere within NEAR pixels of it, so
 * that the name is hidden. The page shows it when the pointer is on the line. */
static void place_names(const plot *p, double places[MAX_NAMES])
{
    double ends[MAX_NAMES], last = -INFINITY;
    int order[MAX_NAMES], n = 0;
    for (int s = 0; p->names && s < lh_min_i64(p->series->count, MAX_NAMES); s++) {
        int at = n++;
        ends[s] = end_of(p, s);
        for (; at > 0 && ends[order[at - 1]] > ends[s]; at--) order[at] = order[at - 1];
        order[at] = s;
    }
    for (int k = 0; k < n; k++) {
        const double end = ends[order[k]], y = fmax(end, last + LINE - 1);
        const int fits = isfinite(end) && y - end <= NEAR && y <= p->bottom + NEAR;
        places[order[k]] = fits ? y : INFINITY;
        if (fits) last = y;
    }
}

static void put_name(const plot *p, int64_t s, double y)
{
    if (!isfinite(y) && !p->d->live) return;
    lh_html_put(p->out, "<text class=\"t end%s\" x=\"%.1f\" y=\"%.1f\">", isfinite(y) ? "" : " hidden", p->right + 9,
                (isfinite(y) ? y : p->bottom) + 4);
    lh_html_point(p->out, p->series, s, NAME_CHARS);
    lh_html_put(p->out, "</text>");
}

static void put_curves(const plot *p)
{
    lh_scale x;
    double names[MAX_NAMES];
    lh_scale_of_dim(&x, p->x);
    x.from = p->left;
    x.to = p->right;
    put_axis_left(p);
    put_axis_below(p, &x);
    place_names(p, names);
    for (int64_t s = 0; s < lh_view_count(p->view, p->view->series); s++) {
        char style[LH_STYLE_CLASS];
        const int64_t number = lh_series_style(p->d->palette, p->series, s, style);
        const int marked = number >= 0 && number < LH_RAMP && p->x->count <= MARKED_POINTS;
        lh_html_put(p->out, "<g class=\"series %s\" data-series=\"%lld\" data-marker=\"%s\">", style, (long long)s,
                    marked ? markers[number % LH_COLOURS] : "");
        if (p->bands || p->d->live) put_band(p, s, &x);
        put_line(p, s, &x);
        if (marked) put_marks(p, s, &x, markers[number % LH_COLOURS]);
        if (p->names && s < MAX_NAMES) put_name(p, s, names[s]);
        lh_html_put(p->out, "</g>");
    }
}

/* ---- bars ---- */

static void put_bars(const plot *p)
{
    const int64_t series = lh_view_count(p->view, p->view->series);
    const double step = (p->right - p->left) / (double)p->x->count, wide = 0.8 * step / (double)series;
    const double zero = lh_scale_at(&p->values, fmax(p->values.low, 0));
    put_axis_left(p);
    for (int64_t s = 0; s < series; s++)
        for (int64_t i = 0; i < p->x->count; i++) {
            char style[LH_STYLE_CLASS];
            const double v = lh_view_value(p->view, p->d->panel, s, i);
            lh_series_style(p->d->palette,
                            p->series                  ? p->series
                            : lh_dim_is_policies(p->x) ? p->x
                                                       : NULL,
                            p->series ? s : i, style);
            lh_html_put(p->out, "<path class=\"bar %s\" data-series=\"%lld\" data-at=\"%lld\" d=\"", style,
                        (long long)s, (long long)i);
            if (isfinite(v))
                lh_html_put(p->out, "M%.1f %.1fh%.1fV%.1fh-%.1fz",
                            p->left + step * ((double)i + 0.1) + wide * (double)s, lh_scale_at(&p->values, v),
                            fmax(wide - 0.5, 0.5), zero, fmax(wide - 0.5, 0.5));
            lh_html_put(p->out, "\"/>");
        }
    put_axis_below(p, NULL);
}

/* ---- heat maps ---- */

/* viridis, at LEVELS steps between its stops. */
static void put_colour(int level, lh_html *out)
{
    static const int stops[] = {0x440154, 0x482374, 0x453781, 0x3e4989, 0x375b8d, 0x2f6b8e, 0x297a8e, 0x23898e,
                                0x1f988b, 0x22a785, 0x32b67a, 0x4ec36b, 0x70cf57, 0x98d83e, 0xc2df23, 0xfde725};
    enum { LAST = sizeof stops / sizeof *stops - 1 };
    const double at = (double)level * LAST / (LEVELS - 1);
    const int stop = (int)fmin(at, LAST - 1);
    char text[8];
    int rgb = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const int from = stops[stop] >> shift & 255, to = stops[stop + 1] >> shift & 255;
        rgb |= (int)(from + (at - stop) * (to - from) + 0.5) << shift;
    }
    snprintf(text, sizeof text, "#%06x", (unsigned)rgb);
    lh_html_put(out, "%s", text);
}

static double mean_of(const plot *p, const int64_t rows[2], const int64_t columns[2])
{
    double sum = 0;
    int64_t found = 0;
    for (int64_t r = rows[0]; r < rows[1]; r++)
        for (int64_t c = columns[0]; c < columns[1]; c++) {
            const double v = lh_view_value(p->view, p->d->panel, r, c);
            if (!isfinite(v)) continue;
            sum += v;
            found++;
        }
    return found ? sum / (double)found : (double)NAN;
}

/* The cells, one path for each colour. A map with more cells than it has pixels shows means of neighbours. */
static void put_cells(const plot *p)
{
    const int64_t columns = p->x->count, rows = p->series->count;
    const int64_t wide = (columns + COLUMNS - 1) / COLUMNS, high = (rows + ROWS - 1) / ROWS;
    const lh_scale levels = {p->values.log, p->values.low, p->values.high, 0, LEVELS};
    lh_buf cells[LEVELS] = {{0}};
    for (int64_t r = 0; r * high < rows; r++)
        for (int64_t c = 0; c * wide < columns; c++) {
            const double v = mean_of(p, (int64_t[]){r * high, lh_min_i64(rows, (r + 1) * high)},
                                     (int64_t[]){c * wide, lh_min_i64(columns, (c + 1) * wide)});
            if (!isfinite(v) || p->out->st != LH_OK) continue;
            p->out->st = lh_buf_printf(&cells[(int)fmin(LEVELS - 1, fmax(0, lh_scale_at(&levels, v)))],
                                       "M%lld %lldh1v1h-1z", (long long)c, (long long)r);
        }
    char transform[96];
    snprintf(transform, sizeof transform, "translate(%.1f %.1f) scale(%.4f %.4f)", p->left, p->top,
             (p->right - p->left) / ceil((double)columns / (double)wide),
             (p->bottom - p->top) / ceil((double)rows / (double)high));
    lh_html_put(p->out, "<g class=\"cells\" data-bins=\"%lld %lld\" transform=\"%s\">", (long long)wide,
                (long long)high, transform);
    for (int l = 0; l < LEVELS; l++) {
        if (cells[l].bytes || p->d->live) {
            lh_html_put(p->out, "<path fill=\"");
            put_colour(l, p->out);
            lh_html_put(p->out, "\" d=\"");
            lh_html_raw(p->out, cells[l].data, cells[l].bytes);
            lh_html_put(p->out, "\"/>");
        }
        lh_buf_clear(&cells[l]);
    }
    lh_html_put(p->out, "</g>");
}

static void put_heatmap(const plot *p)
{
    const double high = (p->bottom - p->top) / (double)p->series->count;
    const int64_t step = lh_max_i64(1, (int64_t)ceil(LINE / high));
    put_cells(p);
    for (int64_t i = 0; i < p->series->count; i += step) {
        open_text(p->out, "", "end", p->left - 6, p->top + high * ((double)i + 0.5) + 4);
        lh_html_point(p->out, p->series, i, LABEL_CHARS);
        lh_html_put(p->out, "</text>");
    }
    if (p->alone) put_text(p->out, "start", 2, p->top - 7, p->series->name);
    put_axis_below(p, NULL);
}

static void put_ends(const void *self, const lh_scale *range, lh_html *out)
{
    const lh_drawing *d = self;
    put_value(out, "end", 34, 10, range->low, d->view->figure->unit);
    put_value(out, "start", 172, 10, range->high, d->view->figure->unit);
}

void lh_draw_colours(const lh_drawing *d, lh_html *out)
{
    const lh_figure_dim *dims = d->view->figure->dims;
    lh_html_put(out, "<svg class=\"colours\" viewBox=\"0 0 400 14\" width=\"400\" height=\"14\" x=\"%.1f\" y=\"%.1f\">",
                d->at[0], d->at[1]);
    for (int l = 0; l < LEVELS; l++) {
        lh_html_put(out, "<path fill=\"");
        put_colour(l, out);
        lh_html_put(out, "\" d=\"M%d 1h4.5v10h-4.5z\"/>", 38 + 4 * l);
    }
    put_ranges(d, out, d, put_ends);
    if (d->view->panel >= 0) { /* panels have no space for the names of their axes */
        open_text(out, "name", "start", 240, 10);
        lh_html_short(out, dims[d->view->series].name, 12);
        lh_html_put(out, " by ");
        lh_html_short(out, dims[d->view->x].name, 12);
        lh_html_put(out, "</text>");
    }
    lh_html_put(out, "</svg>");
}

/* ---- panels ---- */

static void (*const kinds[LH_VIEWS])(const plot *p) = {
    [LH_VIEW_CURVES] = put_curves, [LH_VIEW_HEATMAP] = put_heatmap, [LH_VIEW_BARS] = put_bars};

double lh_draw_height(const lh_drawing *d)
{
    return d->view->panel < 0 ? round(fmin(380, fmax(260, 0.55 * d->width))) : round(0.7 * d->width);
}

static plot make_plot(const lh_drawing *d, lh_html *out)
{
    const lh_view *view = d->view;
    const lh_figure *f = view->figure;
    const int map = f->view == LH_VIEW_HEATMAP;
    plot p = {.d = d,
              .view = view,
              .x = &f->dims[view->x],
              .series = view->series < 0 ? NULL : &f->dims[view->series],
              .out = out,
              .height = lh_draw_height(d),
              .alone = view->panel < 0};
    p.names = p.alone && p.series && f->view == LH_VIEW_CURVES && d->width > 480;
    p.bands = lh_view_count(view, view->series) <= LH_BANDS;
    p.left = map ? fmax(30, 12 + CHAR * (double)longest_name(p.series)) : 52;
    p.right = d->width - (p.names ? 136 : map ? 8 : 12);
    p.slant = is_slanted(p.x, p.right - p.left);
    p.top = 24;
    p.bottom = p.height - (p.alone ? 42 : 24) - (p.slant ? 32 : 0);
    p.values = (lh_scale){d->axis->log, d->axis->ranges[d->range].low, d->axis->ranges[d->range].high, p.bottom, p.top};
    return p;
}

void lh_draw(const lh_drawing *d, lh_html *out)
{
    const lh_figure *f = d->view->figure;
    if (!kinds[f->view]) return;
    const plot p = make_plot(d, out);
    lh_html_put(
        out, "<svg class=\"plot w%d\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" x=\"%g\" y=\"%g\" role=\"img\"",
        (int)d->width, d->width, p.height, d->width, p.height, d->at[0], d->at[1]);
    lh_html_put(out, " aria-label=\"%s\"", f->title);
    if (d->live)
        lh_html_put(out, " tabindex=\"0\" data-panel=\"%lld\" data-box=\"%.1f %.1f %.1f %.1f\"", (long long)d->panel,
                    p.left, p.right, p.top, p.bottom);
    if (d->live && f->view == LH_VIEW_CURVES) {
        lh_scale x;
        lh_scale_of_dim(&x, p.x);
        x.from = p.left;
        x.to = p.right;
        for (int64_t i = 0; i < p.x->count; i++)
            lh_html_put(out, i ? " %.1f" : " data-x=\"%.1f", lh_scale_at(&x, lh_point_value(p.x, i)));
        lh_html_put(out, "\"");
    }
    lh_html_put(out, ">");
    if (!p.alone) {
        open_text(out, "panel", "start", p.left, 14);
        lh_html_point(out, &f->dims[d->view->panel], d->panel, 30);
        lh_html_put(out, "</text>");
    }
    kinds[f->view](&p);
    lh_html_put(out, "</svg>\n");
}
