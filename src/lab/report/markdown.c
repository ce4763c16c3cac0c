/* markdown.c - figures as tables: the points of x across, series down; maps that are wider than a page are left to the
 * CSV files. */
#include "base/markdown.h"

#include <math.h>
#include <string.h>

#include "base/unicode.h"
#include "lab/report/report_impl.h"
#include "lab/report/view.h"

enum { COLUMNS = 16, ROWS = 40 };

/* A cell's text must neither end the row nor be HTML, nor control a terminal. */
static lh_status put_plain(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf plain = {0};
    LH_TRY_DONE(lh_buf_puts(&plain, text));
    for (char *at = plain.data; *at; at++)
        if (*at == '\t' || *at == '\n') *at = ' ';
    plain.bytes = lh_text_make_plain(plain.data, plain.bytes);
    for (int64_t at = 0; at < plain.bytes; at++) {
        const char c = plain.data[at];
        if (c == '|' || c == '<') LH_TRY_DONE(lh_buf_puts(out, "\\"));
        LH_TRY_DONE(lh_buf_append(out, &c, 1));
    }
done:
    lh_buf_clear(&plain);
    return st;
}

static lh_status put_point(lh_buf *cell, const lh_figure_dim *dim, int64_t i)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_point_text(dim, i, &text));
    LH_TRY_DONE(put_plain(cell, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status put_panel(const lh_view *view, int64_t panel, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_markdown table;
    const lh_figure *f = view->figure;
    const int64_t rows = lh_view_count(view, view->series), columns = lh_view_count(view, view->x);
    const lh_figure_dim *x = &f->dims[view->x], *y = view->series < 0 ? NULL : &f->dims[view->series];
    LH_TRY_DONE(lh_markdown_init(&table, rows + 1, columns + 1));
    if (view->panel >= 0) {
        LH_TRY_DONE(lh_buf_puts(out, "\n"));
        LH_TRY_DONE(put_point(out, &f->dims[view->panel], panel));
        LH_TRY_DONE(lh_buf_puts(out, ":\n\n"));
    }
    LH_TRY_DONE(put_plain(lh_markdown_cell(&table, 0, 0), y ? y->name : ""));
    for (int64_t c = 0; c < columns; c++) LH_TRY_DONE(put_point(lh_markdown_cell(&table, 0, c + 1), x, c));
    for (int64_t r = 0; r < rows; r++) {
        if (y) LH_TRY_DONE(put_point(lh_markdown_cell(&table, r + 1, 0), y, r));
        for (int64_t c = 0; c < columns; c++)
            LH_TRY_DONE(
                lh_value_text(lh_view_value(view, panel, r, c), f->unit, lh_markdown_cell(&table, r + 1, c + 1)));
    }
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

static lh_status put_figure(const lh_report *r, const lh_sheet *sheet, lh_buf *out)
{
    lh_view view;
    const lh_figure *f = sheet->figure;
    lh_view_init(&view, f);
    LH_TRY(lh_buf_puts(out, "\n"));
    if (r->source_count > 1) {
        LH_TRY(lh_buf_puts(out, "**"));
        LH_TRY(put_plain(out, sheet->source->name));
        LH_TRY(lh_buf_puts(out, "** "));
    }
    LH_TRY(lh_view_note(&view, out));
    LH_TRY(lh_buf_puts(out, "\n"));
    if (lh_view_count(&view, view.x) > COLUMNS || lh_view_count(&view, view.series) > ROWS)
        return lh_buf_printf(out, "\n(%lld x %lld values: see --csv)\n", (long long)lh_view_count(&view, view.series),
                             (long long)lh_view_count(&view, view.x));
    if (view.panel < 0) LH_TRY(lh_buf_puts(out, "\n"));
    for (int64_t p = 0; p < lh_view_count(&view, view.panel); p++) LH_TRY(put_panel(&view, p, out));
    return LH_OK;
}

lh_status lh_report_markdown(const lh_report *report, lh_buf *out)
{
    for (int64_t t = 0; t < report->topic_count; t++) {
        const lh_topic *topic = &report->topics[t];
        const lh_figure *f = report->sheets[topic->first].figure;
        LH_TRY(lh_buf_puts(out, t ? "\n## " : "## "));
        LH_TRY(put_plain(out, f->title));
        if (*f->unit) {
            LH_TRY(lh_buf_puts(out, " ("));
            LH_TRY(put_plain(out, f->unit));
            LH_TRY(lh_buf_puts(out, ")"));
        }
        LH_TRY(lh_buf_puts(out, "\n\n"));
        LH_TRY(put_plain(out, f->about));
        if (*f->source) {
            LH_TRY(lh_buf_puts(out, " "));
            LH_TRY(put_plain(out, f->source));
            LH_TRY(lh_buf_puts(out, "."));
        }
        LH_TRY(lh_buf_puts(out, "\n"));
        for (int64_t i = topic->first; i < topic->first + topic->count; i++)
            LH_TRY(put_figure(report, &report->sheets[i], out));
    }
    return LH_OK;
}
