/* svg.c - the frame of a figure: panels, axes and texts. Curves and bars are in svg_curves.c, heat maps in
 * svg_heatmap.c. */
#include "lab/report/svg.h"

#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/report/escape.h"
#include "lab/report/svg_impl.h"

enum { NAME_CHARS = 14 };

int lh_svg_chars(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

lh_status lh_svg_put_text(lh_buf *out, const lh_svg_text *place, const char *text)
{
    lh_status st = LH_OK;
    char *cut = NULL;
    const int chars = lh_svg_chars(text);
    int64_t bytes = (int64_t)strlen(text);
    if (place->limit && chars > place->limit) {
        bytes = 0;
        for (int n = 0; n < place->limit || ((unsigned char)text[bytes] & 0xC0) == 0x80; bytes++)
            n += ((unsigned char)text[bytes] & 0xC0) != 0x80;
    }
    LH_TRY_DONE(lh_asprintf(&cut, "%.*s%s", (int)bytes, text, text[bytes] ? "…" : ""));
    LH_TRY_DONE(lh_buf_printf(out, "<text class=\"%s\" text-anchor=\"%s\" ", place->classes ? place->classes : "t",
                              place->anchor));
    if (place->slant)
        LH_TRY_DONE(lh_buf_printf(out, "transform=\"translate(%.1f %.1f) rotate(-35)\">", place->x, place->y));
    else
        LH_TRY_DONE(lh_buf_printf(out, "x=\"%.1f\" y=\"%.1f\">", place->x, place->y));
    LH_TRY_DONE(lh_html_text(out, cut));
    LH_TRY_DONE(lh_buf_puts(out, "</text>"));
done:
    lh_free(cut);
    return st;
}

/* ---- axes ---- */

int lh_svg_longest(const lh_figure_dim *dim)
{
    int longest = 1;
    lh_buf text = {0};
    for (int64_t i = 0; i < dim->count; i++) {
        text.bytes = 0;
        if (lh_point_text(dim, i, &text) == LH_OK) longest = (int)lh_max_i64(longest, lh_svg_chars(text.data));
    }
    lh_buf_clear(&text);
    return longest;
}

static lh_status name_of_dim(const lh_figure_dim *dim, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, dim->name));
    if (dim->unit && *dim->unit) LH_TRY(lh_buf_printf(out, ", %s", dim->unit));
    return LH_OK;
}

/* 1 if the labels of a dimension are too long to lie side by side in `width`, and few enough to be slanted. */
static int is_slanted(const lh_figure_dim *dim, double width)
{
    const double gap = width / (double)dim->count;
    return dim->labels && lh_min_i64(lh_svg_longest(dim), NAME_CHARS) * LH_SVG_CHAR > gap && gap > LH_SVG_LINE;
}

/* Texts below points of a dimension, those left out that would touch the one before. */
static lh_status points_below(const lh_svg_panel *p, const lh_scale *scale, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const lh_figure_dim *dim = lh_svg_dim(p, p->svg->view->x);
    const int longest = (int)lh_min_i64(lh_svg_longest(dim), NAME_CHARS);
    const double gap = (p->right - p->left) / (double)dim->count;
    const int slant = is_slanted(dim, p->right - p->left);
    const double room = slant ? LH_SVG_LINE : longest * LH_SVG_CHAR + 6;
    const int64_t step = scale || dim->labels ? 1 : (int64_t)lh_round_step(fmax(1, room / gap));
    double last = -INFINITY;
    for (int64_t i = 0; i < dim->count; i += step) {
        const double x = scale ? lh_scale_at(scale, lh_point_value(dim, i)) : p->left + gap * ((double)i + 0.5);
        if (x - last < room) continue;
        last = x;
        text.bytes = 0;
        LH_TRY_DONE(lh_point_text(dim, i, &text));
        LH_TRY_DONE(lh_svg_put_text(
            out, &(lh_svg_text){x, p->bottom + (slant ? 12 : 15), slant ? "end" : "middle", "t", NAME_CHARS, slant},
            text.data));
    }
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_svg_axis_below(const lh_svg_panel *p, const lh_scale *scale, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_figure_dim *dim = lh_svg_dim(p, p->svg->view->x);
    lh_buf text = {0};
    double ticks[LH_TICKS];
    LH_TRY_DONE(lh_buf_printf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>", p->left, p->bottom, p->right));
    const int n = scale && !dim->labels && dim->count > LH_TICKS ? lh_scale_ticks(scale, ticks) : 0;
    if (!n) LH_TRY_DONE(points_below(p, scale, out));
    for (int i = 0; i < n; i++) {
        text.bytes = 0;
        LH_TRY_DONE(lh_value_text(ticks[i], dim->unit ? dim->unit : "", &text));
        LH_TRY_DONE(lh_svg_put_text(
            out, &(lh_svg_text){lh_scale_at(scale, ticks[i]), p->bottom + 15, "middle", "t", 0, 0}, text.data));
    }
    if (p->alone) {
        text.bytes = 0;
        LH_TRY_DONE(name_of_dim(dim, &text));
        LH_TRY_DONE(lh_svg_put_text(
            out, &(lh_svg_text){(p->left + p->right) / 2, p->bottom + p->below, "middle", "t name", 60, 0}, text.data));
    }
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_svg_axis_left(const lh_svg_panel *p, const lh_scale *scale, lh_buf *out)
{
    lh_status st = LH_OK;
    const char *unit = p->svg->view->figure->unit;
    lh_buf text = {0};
    double ticks[LH_TICKS];
    const int n = lh_scale_ticks(scale, ticks);
    for (int i = 0; i < n; i++) {
        const double y = lh_scale_at(scale, ticks[i]);
        text.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->right));
        LH_TRY_DONE(lh_value_text(ticks[i], unit, &text));
        LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){p->left - 6, y + 4, "end", "t", 0, 0}, text.data));
    }
    if (p->alone && *unit)
        LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){2, p->top - 9, "start", "t name", 70, 0}, unit));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- panels ---- */

typedef struct view_kind {
    lh_status (*draw)(const lh_svg_panel *p, lh_buf *out);
    double height; /* of a figure with one panel, axis included */
} view_kind;

static const view_kind kinds[LH_VIEWS] = {[LH_VIEW_CURVES] = {lh_svg_curves, 330},
                                          [LH_VIEW_HEATMAP] = {lh_svg_heatmap, 360},
                                          [LH_VIEW_BARS] = {lh_svg_bars, 320}};

static lh_status draw_panel(const lh_svg *svg, int64_t panel, int64_t across, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_view *view = svg->view;
    const view_kind *kind = &kinds[view->figure->view];
    const int alone = view->panel < 0;
    const int map = view->figure->view == LH_VIEW_HEATMAP;
    const double width = (double)LH_SVG_WIDTH / (double)across, height = alone ? kind->height : 190;
    const double x = width * (double)(panel % across), y = 24 + height * (double)(panel / across);
    const double names =
        map ? 12 + LH_SVG_CHAR * lh_min_i64(14, lh_svg_longest(&view->figure->dims[view->series])) : 52;
    const double beside = alone && !map && view->series >= 0 ? 118 : 12;
    const int slant = is_slanted(&view->figure->dims[view->x], width - beside - names);
    lh_svg_panel p = {.svg = svg,
                      .panel = panel,
                      .left = x + names,
                      .right = x + width - beside,
                      .top = y + 10,
                      .bottom = y + height - (alone ? 44 : 30) - (slant ? 34 : 0),
                      .below = slant ? 66 : 32,
                      .alone = alone};
    lh_buf text = {0};
    if (!alone) {
        LH_TRY_DONE(lh_point_text(&view->figure->dims[view->panel], panel, &text));
        LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){p.left, p.top - 6, "start", "t panel", 30, 0}, text.data));
    }
    LH_TRY_DONE(kind->draw(&p, out));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_svg_draw(const lh_svg *svg, lh_buf *out)
{
    const lh_view *view = svg->view;
    const view_kind *kind = &kinds[view->figure->view];
    if (!kind->draw) return LH_OK;
    const int64_t panels = lh_min_i64(lh_view_count(view, view->panel), LH_SVG_PANELS);
    const int64_t across = view->panel < 0 ? 1 : panels <= 1 ? 1 : panels <= 4 ? 2 : 3;
    const double height = view->panel < 0 ? kind->height : 190 * (double)((panels + across - 1) / across);
    LH_TRY(lh_buf_printf(out, "<svg class=\"static\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", LH_SVG_WIDTH,
                         height + 28));
    LH_TRY(lh_html_text(out, view->figure->title));
    LH_TRY(lh_buf_puts(out, "\">"));
    if (view->figure->view == LH_VIEW_HEATMAP) LH_TRY(lh_svg_colours(svg, out));
    for (int64_t p = 0; p < panels; p++) LH_TRY(draw_panel(svg, p, across, out));
    return lh_buf_puts(out, "</svg>\n");
}
