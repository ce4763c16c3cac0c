/* page_figures.c - each figure with its drawing, its numbers as a table, and the command that made it; then the tables
 * of the files. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/report/escape.h"
#include "lab/report/report_impl.h"
#include "lab/report/svg.h"
#include "lab/report/view.h"

enum { TABLE_CELLS = 1200, TABLE_ROWS = 200, WIDE_COLUMNS = 64 };

lh_status lh_page_key(const lh_report *r, const lh_figure_dim *dim, int64_t i, lh_buf *out)
{
    char classes[LH_INK_CLASS];
    lh_ink_class(lh_ink(&r->palette, dim, i), classes);
    return lh_buf_printf(out,
                         "<svg class=\"key\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"line %s\" "
                         "d=\"M1 5H23\"/></svg> ",
                         classes);
}

/* ---- numbers ---- */

lh_status lh_page_point(const lh_figure_dim *dim, int64_t i, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_point_text(dim, i, &text));
    LH_TRY_DONE(lh_html_text(out, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status put_number(double value, const char *unit, const char *attributes, lh_buf *out)
{
    LH_TRY(lh_buf_printf(out, "<td%s>", attributes));
    LH_TRY(lh_value_text(value, unit, out));
    return lh_buf_puts(out, "</td>");
}

static lh_status put_panel(const lh_sheet *sheet, const lh_view *view, int64_t panel, lh_buf *out)
{
    const lh_figure *f = view->figure;
    const int64_t rows = lh_view_count(view, view->series), columns = lh_view_count(view, view->x);
    LH_TRY(lh_buf_puts(out, "<div class=\"scroll\"><table>\n"));
    if (view->panel >= 0) {
        LH_TRY(lh_buf_puts(out, "<caption>"));
        LH_TRY(lh_page_point(&f->dims[view->panel], panel, out));
        LH_TRY(lh_buf_puts(out, "</caption>\n"));
    }
    LH_TRY(lh_buf_puts(out, "<thead><tr><th scope=\"col\">"));
    LH_TRY(lh_html_text(out, f->dims[view->x].name));
    LH_TRY(lh_buf_puts(out, "</th>"));
    for (int64_t c = 0; c < columns; c++) {
        LH_TRY(lh_buf_puts(out, "<th scope=\"col\">"));
        LH_TRY(lh_page_point(&f->dims[view->x], c, out));
        LH_TRY(lh_buf_puts(out, "</th>"));
    }
    LH_TRY(lh_buf_puts(out, "</tr></thead>\n<tbody>\n"));
    for (int64_t s = 0; s < rows; s++) {
        LH_TRY(lh_buf_puts(out, "<tr><th scope=\"row\">"));
        if (view->series >= 0) LH_TRY(lh_page_point(&f->dims[view->series], s, out));
        LH_TRY(lh_buf_puts(out, "</th>"));
        for (int64_t c = 0; c < columns; c++)
            LH_TRY(put_number(lh_view_value(view, panel, s, c), f->unit,
                              lh_samples_filled_at(&sheet->samples, view, s, c) ? LH_FILLED_CELL : "", out));
        LH_TRY(lh_buf_puts(out, "</tr>\n"));
    }
    return lh_buf_puts(out, "</tbody></table></div>\n");
}

static lh_status put_numbers(const lh_sheet *sheet, const lh_view *view, lh_buf *out)
{
    const int64_t panels = lh_view_count(view, view->panel);
    const int64_t cells = panels * lh_view_count(view, view->series) * lh_view_count(view, view->x);
    const int open = view->figure->view == LH_VIEW_TABLE;
    if (cells > TABLE_CELLS) return LH_OK;
    LH_TRY(lh_buf_puts(out, open ? "<details open>" : "<details>"));
    LH_TRY(lh_buf_puts(out, "<summary>Numbers</summary>\n"));
    for (int64_t p = 0; p < panels; p++) LH_TRY(put_panel(sheet, view, p, out));
    return lh_buf_puts(out, "</details>\n");
}

/* ---- figures ---- */

static int has_filled(const lh_sheet *sheet, const lh_view *view)
{
    for (int64_t s = 0; s < lh_view_count(view, view->series); s++)
        for (int64_t x = 0; x < lh_view_count(view, view->x); x++)
            if (lh_samples_filled_at(&sheet->samples, view, s, x)) return 1;
    return 0;
}

static lh_status put_sheet(const lh_report *r, int64_t at, const lh_topic *topic, lh_buf *out)
{
    const lh_sheet *sheet = &r->sheets[at];
    lh_view view;
    lh_svg svg = {.view = &view, .palette = &r->palette, .samples = &sheet->samples};
    lh_view_init(&view, sheet->drawn);
    lh_topic_range(r, topic, &svg.low, &svg.high);
    LH_TRY(lh_buf_printf(out, "<figure class=\"sheet\" data-sheet=\"%lld\">\n", (long long)at));
    LH_TRY(lh_buf_puts(out, "<figcaption class=\"above\">"));
    if (r->source_count > 1) {
        LH_TRY(lh_buf_puts(out, "<b>"));
        LH_TRY(lh_html_text(out, sheet->source->name));
        LH_TRY(lh_buf_puts(out, "</b> "));
    }
    lh_buf note = {0};
    lh_status st = lh_view_note(&view, &note);
    LH_TRY(lh_buf_puts(out, "<span class=\"note\">"));
    if (st == LH_OK && note.data) st = lh_html_text(out, note.data);
    lh_buf_clear(&note);
    LH_TRY(st);
    LH_TRY(lh_buf_puts(out, "</span></figcaption>\n<div class=\"plot\">"));
    LH_TRY(lh_svg_draw(&svg, out));
    LH_TRY(lh_buf_puts(out, "</div>\n"));
    if (view.panel >= 0 && lh_view_count(&view, view.panel) > LH_SVG_PANELS)
        LH_TRY(lh_buf_printf(out, "<p class=\"aside static\">The first %d of %lld.</p>\n", LH_SVG_PANELS,
                             (long long)lh_view_count(&view, view.panel)));
    if (sheet->drawn != sheet->figure)
        LH_TRY(lh_buf_puts(out, "<p class=\"aside\">Too large for a page: neighbours are averaged. '--csv' writes all "
                                "values.</p>\n"));
    if (has_filled(sheet, &view))
        LH_TRY(lh_buf_puts(out, "<p class=\"aside\">Hollow points: " LH_FILLED_NOTE ".</p>\n"));
    LH_TRY(put_numbers(sheet, &view, out));
    if (sheet->source->command) {
        LH_TRY(lh_buf_puts(out, "<p class=\"command\"><code>"));
        LH_TRY(lh_html_text(out, sheet->source->command));
        LH_TRY(lh_buf_puts(out, "</code></p>\n"));
    }
    return lh_buf_puts(out, "</figure>\n");
}

static lh_status put_topic(const lh_report *r, const lh_topic *topic, lh_buf *out)
{
    const lh_figure *f = r->sheets[topic->first].figure;
    lh_view view;
    lh_view_init(&view, f);
    const int wide = topic->count > 1 || view.panel >= 0 || lh_view_count(&view, view.x) > WIDE_COLUMNS;
    LH_TRY(lh_buf_printf(out, "<section class=\"topic%s\" id=\"%s\">\n<h2>", wide ? " wide" : "", f->name));
    LH_TRY(lh_html_text(out, f->title));
    LH_TRY(lh_buf_puts(out, "</h2>\n<p class=\"about\">"));
    LH_TRY(lh_html_text(out, f->about));
    if (*f->source) {
        LH_TRY(lh_buf_puts(out, " <cite>"));
        LH_TRY(lh_html_text(out, f->source));
        LH_TRY(lh_buf_puts(out, "</cite>"));
    }
    LH_TRY(lh_buf_printf(out, "</p>\n<div class=\"sheets n%d\">\n", (int)lh_min_i64(topic->count, 3)));
    for (int64_t i = topic->first; i < topic->first + topic->count; i++) LH_TRY(put_sheet(r, i, topic, out));
    return lh_buf_puts(out, "</div>\n</section>\n");
}

lh_status lh_page_figures(const lh_report *r, lh_buf *out)
{
    for (int64_t t = 0; t < r->topic_count; t++) LH_TRY(put_topic(r, &r->topics[t], out));
    return LH_OK;
}

/* ---- tables of the files ---- */

static lh_status put_cell(const lh_column *column, const lh_cell *cell, lh_buf *out)
{
    if (column->type == LH_COLUMN_F64) return put_number(cell->value, "", "", out);
    if (column->type == LH_COLUMN_I64) return lh_buf_printf(out, "<td>%lld</td>", (long long)cell->number);
    LH_TRY(lh_buf_puts(out, "<td class=\"text\">"));
    LH_TRY(lh_html_text(out, cell->text));
    return lh_buf_puts(out, "</td>");
}

static lh_status put_table(const lh_stored_table *stored, int64_t number, lh_buf *out)
{
    const lh_table *table = &stored->table;
    LH_TRY(lh_buf_printf(out, "<details class=\"rows\" data-table=\"%lld\"><summary>", (long long)number));
    LH_TRY(lh_html_text(out, stored->name));
    LH_TRY(
        lh_buf_printf(out, ", %lld rows</summary>\n<div class=\"scroll\"><table>\n<thead><tr>", (long long)table->n));
    for (int64_t c = 0; c < table->width; c++) {
        LH_TRY(lh_buf_puts(out, "<th scope=\"col\" title=\""));
        LH_TRY(lh_html_text(out, table->columns[c].unit));
        LH_TRY(lh_buf_puts(out, "\">"));
        LH_TRY(lh_html_text(out, table->columns[c].name));
        LH_TRY(lh_buf_puts(out, "</th>"));
    }
    LH_TRY(lh_buf_puts(out, "</tr></thead>\n<tbody>\n"));
    for (int64_t i = 0; i < lh_min_i64(table->n, TABLE_ROWS); i++) {
        LH_TRY(lh_buf_puts(out, "<tr>"));
        for (int64_t c = 0; c < table->width; c++)
            LH_TRY(put_cell(&table->columns[c], &lh_table_row(table, i)[c], out));
        LH_TRY(lh_buf_puts(out, "</tr>\n"));
    }
    LH_TRY(lh_buf_puts(out, "</tbody></table></div>\n"));
    if (table->n > TABLE_ROWS) LH_TRY(lh_buf_printf(out, "<p class=\"aside\">The first %d rows.</p>\n", TABLE_ROWS));
    return lh_buf_puts(out, "</details>\n");
}

lh_status lh_page_tables(const lh_report *r, lh_buf *out)
{
    int64_t number = 0, all = 0;
    for (int64_t s = 0; s < r->source_count; s++) all += r->sources[s].tables.count;
    if (!all) return LH_OK;
    LH_TRY(lh_buf_puts(out, "<section class=\"topic wide\" id=\"tables\">\n<h2>Tables</h2>\n"));
    for (int64_t s = 0; s < r->source_count; s++) {
        const lh_tables *tables = &r->sources[s].tables;
        if (tables->count && r->source_count > 1) {
            LH_TRY(lh_buf_puts(out, "<h3>"));
            LH_TRY(lh_html_text(out, r->sources[s].name));
            LH_TRY(lh_buf_puts(out, "</h3>\n"));
        }
        for (int64_t i = 0; i < tables->count; i++) LH_TRY(put_table(&tables->list[i], number++, out));
    }
    return lh_buf_puts(out, "</section>\n");
}
