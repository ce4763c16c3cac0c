/* svg_heatmap.c - heat maps: cells of one of 16 colours, all cells of a colour as one path. Maps with more cells than a
 * figure has room for show means of neighbours. */
#include <math.h>

#include "base/minmax.h"
#include "lab/report/svg_impl.h"

enum { COLUMNS = 128, ROWS = 64, ROW_NAMES = 10 };

/* Number of neighbours that become one cell. */
static int64_t bin_of(int64_t count, int64_t room)
{
    return (count + room - 1) / room;
}

static double mean_of(const lh_svg_panel *p, const int64_t rows[2], const int64_t columns[2])
{
    double sum = 0;
    int64_t found = 0;
    for (int64_t r = rows[0]; r < rows[1]; r++)
        for (int64_t c = columns[0]; c < columns[1]; c++) {
            const double v = lh_view_value(p->svg->view, p->panel, r, c);
            if (!isfinite(v)) continue;
            sum += v;
            found++;
        }
    return found ? sum / (double)found : (double)NAN;
}

static int level_of(const lh_scale *scale, double value)
{
    const double level = lh_scale_at(scale, value);
    return (int)fmin(LH_SVG_LEVELS - 1, fmax(0, level));
}

/* Colours from the smallest to the largest value, without the round ends of an axis. */
static void colour_scale(const lh_svg *svg, lh_scale *scale)
{
    lh_scale_of_values(scale, svg->low, svg->high, svg->view->figure->unit);
    if (svg->low < svg->high) {
        scale->low = scale->log ? svg->low : fmin(svg->low, svg->low > 0 && svg->low < svg->high / 3 ? 0 : svg->low);
        scale->high = svg->high;
    }
    scale->from = 0;
    scale->to = LH_SVG_LEVELS;
}

static lh_status put_cells(const lh_svg_panel *p, const lh_scale *colours, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_view *view = p->svg->view;
    const int64_t columns = lh_view_count(view, view->x), rows = lh_view_count(view, view->series);
    const int64_t wide = bin_of(columns, COLUMNS), high = bin_of(rows, ROWS);
    lh_buf levels[LH_SVG_LEVELS] = {{0}};
    for (int64_t r = 0; r * high < rows; r++)
        for (int64_t c = 0; c * wide < columns; c++) {
            const double v = mean_of(p, (int64_t[]){r * high, lh_min_i64(rows, (r + 1) * high)},
                                     (int64_t[]){c * wide, lh_min_i64(columns, (c + 1) * wide)});
            if (isfinite(v))
                LH_TRY_DONE(
                    lh_buf_printf(&levels[level_of(colours, v)], "M%lld %lldh1v1h-1z", (long long)c, (long long)r));
        }
    LH_TRY_DONE(lh_buf_printf(out, "<g class=\"cells\" transform=\"translate(%.1f %.1f) scale(%.4f %.4f)\">", p->left,
                              p->top, (p->right - p->left) / (double)bin_of(columns, wide),
                              (p->bottom - p->top) / (double)bin_of(rows, high)));
    for (int l = 0; l < LH_SVG_LEVELS; l++)
        if (levels[l].bytes) LH_TRY_DONE(lh_buf_printf(out, "<path class=\"v%d\" d=\"%s\"/>", l, levels[l].data));
    LH_TRY_DONE(lh_buf_puts(out, "</g>"));
done:
    for (int l = 0; l < LH_SVG_LEVELS; l++) lh_buf_clear(&levels[l]);
    return st;
}

static lh_status put_row_names(const lh_svg_panel *p, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_figure_dim *dim = lh_svg_dim(p, p->svg->view->series);
    const double high = (p->bottom - p->top) / (double)dim->count;
    const int64_t step = lh_max_i64(1, (int64_t)ceil(LH_SVG_LINE / high));
    lh_buf text = {0};
    for (int64_t i = 0; i < dim->count; i += step) {
        text.bytes = 0;
        LH_TRY_DONE(lh_point_text(dim, i, &text));
        LH_TRY_DONE(lh_svg_put_text(
            out, &(lh_svg_text){p->left - 6, p->top + high * ((double)i + 0.5) + 4, "end", "t", 14, 0}, text.data));
    }
    if (p->alone) LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){2, p->top - 7, "start", "t name", 60, 0}, dim->name));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_svg_heatmap(const lh_svg_panel *p, lh_buf *out)
{
    lh_scale colours;
    colour_scale(p->svg, &colours);
    LH_TRY(put_cells(p, &colours, out));
    LH_TRY(put_row_names(p, out));
    return lh_svg_axis_below(p, NULL, out);
}

lh_status lh_svg_colours(const lh_svg *svg, lh_buf *out)
{
    lh_status st = LH_OK;
    enum { STEP = 8, RIGHT = LH_SVG_WIDTH - 50, TOP = 4 };
    const double left = RIGHT - STEP * LH_SVG_LEVELS;
    lh_scale scale;
    lh_buf text = {0};
    colour_scale(svg, &scale);
    for (int l = 0; l < LH_SVG_LEVELS; l++)
        LH_TRY_DONE(
            lh_buf_printf(out, "<path class=\"v%d\" d=\"M%.0f %dh%dv9h-%dz\"/>", l, left + STEP * l, TOP, STEP, STEP));
    if (svg->view->panel >= 0) { /* panels have no room for the names of their axes */
        const lh_figure_dim *dims = svg->view->figure->dims;
        LH_TRY_DONE(lh_buf_printf(&text, "%s by %s", dims[svg->view->series].name, dims[svg->view->x].name));
        LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){2, TOP + 9, "start", "t name", 60, 0}, text.data));
        text.bytes = 0;
    }
    LH_TRY_DONE(lh_value_text(scale.low, svg->view->figure->unit, &text));
    LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){left - 5, TOP + 9, "end", "t", 0, 0}, text.data));
    text.bytes = 0;
    LH_TRY_DONE(lh_value_text(scale.high, svg->view->figure->unit, &text));
    LH_TRY_DONE(lh_svg_put_text(out, &(lh_svg_text){RIGHT + 5, TOP + 9, "start", "t", 0, 0}, text.data));
done:
    lh_buf_clear(&text);
    return st;
}
