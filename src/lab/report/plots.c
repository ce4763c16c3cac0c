/* plots.c - figures as lines of block characters, for terminals: each series from its first to its last point. */
#include <math.h>

#include "base/minmax.h"
#include "base/unicode.h"
#include "lab/report/report_impl.h"

enum { WIDTH = 48, SERIES = 24, NAME_CHARS = 24 };

static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Mean of the points that fall on one character. */
static double mean_at(const lh_view *view, int64_t panel, int64_t series, int64_t at, int64_t width)
{
    const int64_t n = lh_view_count(view, view->x);
    double sum = 0, found = 0;
    for (int64_t i = at * n / width; i < (at + 1) * n / width; i++) {
        const double v = lh_view_value(view, panel, series, i);
        if (!isfinite(v)) continue;
        sum += v;
        found++;
    }
    return found > 0 ? sum / found : (double)NAN;
}

static lh_status put_series(const lh_view *view, int64_t panel, int64_t series, const lh_scale *scale, lh_buf *out)
{
    const int64_t n = lh_view_count(view, view->x), width = lh_min_i64(n, WIDTH);
    for (int64_t i = 0; i < width; i++) {
        const double v = mean_at(view, panel, series, i, width);
        const int level = isfinite(v) ? (int)fmin(BLOCKS - 1, fmax(0, lh_scale_at(scale, v))) : 0;
        LH_TRY(lh_buf_puts(out, isfinite(v) ? blocks[level] : " "));
    }
    LH_TRY(lh_buf_puts(out, "  "));
    LH_TRY(lh_value_text(lh_view_value(view, panel, series, 0), view->figure->unit, out));
    LH_TRY(lh_buf_puts(out, " … "));
    LH_TRY(lh_value_text(lh_view_value(view, panel, series, n - 1), view->figure->unit, out));
    return lh_buf_puts(out, "\n");
}

/* A name in NAME_CHARS columns. */
static lh_status put_name(const lh_figure_dim *dim, int64_t i, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t bytes = 0, chars = 0;
    LH_TRY_DONE(lh_point_text(dim, i, &text));
    text.bytes = lh_text_make_plain(text.data, text.bytes);
    for (; bytes < text.bytes && chars < NAME_CHARS; chars++) bytes += lh_utf8_length(text.data + bytes);
    LH_TRY_DONE(lh_buf_puts(out, "  "));
    LH_TRY_DONE(lh_buf_append(out, text.data, bytes));
    LH_TRY_DONE(lh_buf_printf(out, "%*s", (int)(NAME_CHARS + 1 - chars), ""));
done:
    lh_buf_clear(&text);
    return st;
}

/* A line of text from the file. */
static lh_status put_plain(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf plain = {0};
    LH_TRY_DONE(lh_buf_puts(&plain, text));
    plain.bytes = lh_text_make_plain(plain.data, plain.bytes);
    LH_TRY_DONE(lh_buf_append(out, plain.data, plain.bytes));
done:
    lh_buf_clear(&plain);
    return st;
}

static lh_status put_heading(const lh_view *view, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_figure *f = view->figure;
    const lh_figure_dim *x = &f->dims[view->x];
    lh_buf note = {0};
    LH_TRY_DONE(lh_buf_printf(&note, "%s%s%s over %s ", f->title, *f->unit ? ", " : "", f->unit, x->name));
    LH_TRY_DONE(lh_point_text(x, 0, &note));
    LH_TRY_DONE(lh_buf_puts(&note, " … "));
    LH_TRY_DONE(lh_point_text(x, x->count - 1, &note));
    LH_TRY_DONE(put_plain(out, note.data));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
done:
    lh_buf_clear(&note);
    return st;
}

static lh_status put_figure(const lh_figure *figure, lh_buf *out)
{
    lh_view view;
    lh_scale scale;
    lh_axis axis;
    lh_span span = LH_NO_SPAN;
    lh_view_init(&view, figure);
    if (view.panel >= 0 && view.series >= 0) view.series = view.panel; /* policies rather than rows of a map */
    view.panel = -1;
    lh_view_span(&view, &span);
    lh_axis_init(&axis, figure, &span, &span);
    const int range = lh_axis_range(&axis, &span);
    scale = (lh_scale){axis.log, axis.ranges[range].low, span.low < span.high ? span.high : axis.ranges[range].high, 0,
                       BLOCKS};
    LH_TRY(put_heading(&view, out));
    const int64_t series = lh_view_count(&view, view.series);
    for (int64_t s = 0; s < lh_min_i64(series, SERIES); s++) {
        if (view.series >= 0) LH_TRY(put_name(&figure->dims[view.series], s, out));
        if (view.series < 0) LH_TRY(lh_buf_printf(out, "  %*s", NAME_CHARS + 1, ""));
        LH_TRY(put_series(&view, 0, s, &scale, out));
    }
    if (series > SERIES) LH_TRY(lh_buf_printf(out, "  and %lld more\n", (long long)(series - SERIES)));
    return LH_OK;
}

lh_status lh_report_plots(const lh_report *report, lh_buf *out)
{
    for (int64_t i = 0; i < report->figure_count; i++) {
        if (i) LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(put_figure(report->figures[i].drawn, out));
    }
    return LH_OK;
}

lh_status lh_figures_plot(const lh_figures *figures, lh_buf *out)
{
    for (int64_t i = 0; i < figures->count; i++) {
        if (i) LH_TRY(lh_buf_puts(out, "\n"));
        LH_TRY(put_figure(&figures->list[i], out));
    }
    return LH_OK;
}
