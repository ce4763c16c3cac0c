/* export.c - a report as files for other programs: CSV files of figures and tables, figures as SVG files, and figures
 * as tables in Markdown and LaTeX. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/markdown.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/table.h"
#include "base/unicode.h"
#include "lab/report/report_impl.h"

/* ---- folders of files ---- */

typedef struct writing {
    const lh_report *report;
    const char *folder, *ending;
    json_t *taken; /* names of the files that were written, as members */
} writing;

static lh_status open_writing(writing *w, const lh_report *report, const char *folder, const char *ending)
{
    *w = (writing){report, folder, ending, json_object()};
    if (mkdir(folder, 0777) != 0 && !lh_file_is_folder(folder))
        LH_FAIL(LH_EWRITE, "cannot make the folder '%s' of '--%s': %s", folder, ending, strerror(errno));
    return LH_OK;
}

/* Writes SOURCE-NAME.ENDING, or NAME.ENDING if there is one source. A character that is no letter, digit, '.' or '_'
 * becomes '-', and a name that is taken gets a number. */
static lh_status write_file(const writing *w, const lh_report_source *source, const char *name, const lh_buf *text)
{
    lh_status st = LH_OK;
    const int many = w->report->source_count > 1;
    char *base = NULL, *file = NULL, *path = NULL;
    LH_TRY_DONE(lh_asprintf(&base, "%s%s%s", many ? source->name : "", many ? "-" : "", name));
    for (char *c = base; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._", *c)) *c = '-';
    LH_TRY_DONE(lh_unique_name(w->taken, base, &file));
    LH_TRY_DONE(lh_asprintf(&path, "%s/%s.%s", w->folder, file, w->ending));
    LH_TRY_DONE(lh_file_write(path, text->data, text->bytes));
done:
    lh_free(base);
    lh_free(file);
    lh_free(path);
    return st;
}

/* ---- CSV ---- */

/* The columns of a figure: its dimensions and the value. */
static void columns_of(const lh_figure *f, lh_column columns[LH_FIGURE_DIMS + 2])
{
    for (int d = 0; d < f->dim_count; d++)
        columns[d] = (lh_column){f->dims[d].name, "",
                                 f->dims[d].labels   ? LH_COLUMN_LABEL
                                 : f->dims[d].values ? LH_COLUMN_F64
                                                     : LH_COLUMN_I64};
    columns[f->dim_count] = (lh_column){"value", f->unit, LH_COLUMN_F64};
    columns[f->dim_count + 1] = (lh_column){0};
}

/* Values [from, to), a row for each. */
static lh_status add_rows(const lh_figure *f, int64_t from, int64_t to, lh_table *table)
{
    lh_cell row[LH_FIGURE_DIMS + 1] = {{0}};
    for (int64_t i = from; i < to; i++) {
        int64_t rest = i;
        for (int d = f->dim_count - 1; d >= 0; rest /= f->dims[d].count, d--) {
            const lh_figure_dim *dim = &f->dims[d];
            const int64_t k = rest % dim->count;
            row[d] = (lh_cell){dim->labels ? dim->labels[k] : NULL, k, dim->values ? dim->values[k] : 0};
        }
        row[f->dim_count].value = isfinite(f->values[i]) ? (double)f->values[i] : (double)NAN;
        LH_TRY(lh_table_add(table, row));
    }
    return LH_OK;
}

/* A figure may have millions of values: ROWS of them become text at a time. */
static lh_status figure_csv(const lh_figure *f, lh_buf *out)
{
    enum { ROWS = 4096 };
    lh_status st = LH_OK;
    lh_column columns[LH_FIGURE_DIMS + 2];
    lh_table table;
    lh_buf part = {0};
    const int64_t n = lh_figure_count(f);
    columns_of(f, columns);
    lh_table_init(&table, columns);
    LH_TRY_DONE(lh_table_csv(&table, out));
    const int64_t header_bytes = out->bytes;
    for (int64_t at = 0; at < n; at += ROWS) {
        lh_table_clear(&table);
        lh_table_init(&table, columns);
        LH_TRY_DONE(add_rows(f, at, lh_min_i64(n, at + ROWS), &table));
        part.bytes = 0;
        LH_TRY_DONE(lh_table_csv(&table, &part));
        LH_TRY_DONE(lh_buf_append(out, part.data + header_bytes, part.bytes - header_bytes));
    }
done:
    lh_table_clear(&table);
    lh_buf_clear(&part);
    return st;
}

lh_status lh_report_csv(const lh_report *report, const char *folder)
{
    lh_status st = LH_OK;
    writing w;
    lh_buf text = {0};
    LH_TRY_DONE(open_writing(&w, report, folder, "csv"));
    for (int64_t i = 0; i < report->figure_count; i++) {
        const lh_report_figure *f = &report->figures[i];
        text.bytes = 0;
        LH_TRY_DONE(figure_csv(f->figure, &text));
        LH_TRY_DONE(write_file(&w, f->source, f->figure->name, &text));
    }
    for (int64_t s = 0; s < report->source_count; s++) {
        const lh_report_source *source = &report->sources[s];
        for (int64_t i = 0; i < source->tables.count; i++) {
            text.bytes = 0;
            LH_TRY_DONE(lh_table_csv(&source->tables.list[i].table, &text));
            LH_TRY_DONE(write_file(&w, source, source->tables.list[i].name, &text));
        }
    }
done:
    lh_buf_clear(&text);
    json_decref(w.taken);
    return st;
}

/* ---- SVG ---- */

enum { FIGURE_WIDTH = 540, PANEL_WIDTH = 260, ACROSS = 3, KEY_WIDTH = 160, KEY_HEIGHT = 16 };

/* Names and styles of all series, below the drawing from `top` on; returns the height. */
static double put_legend(const lh_drawing *d, double width, double top, lh_html *out)
{
    const lh_view *view = d->view;
    if (view->series < 0 || view->figure->view == LH_VIEW_HEATMAP) return 0;
    const lh_figure_dim *dim = &view->figure->dims[view->series];
    const int64_t across = (int64_t)width / KEY_WIDTH;
    for (int64_t i = 0; i < dim->count; i++) {
        lh_html_put(out, "<g transform=\"translate(%g %g)\">", (double)(i % across * KEY_WIDTH) + 8,
                    top + (double)(i / across * KEY_HEIGHT));
        lh_draw_key(d->palette, dim, i, out);
        lh_html_put(out, "<text class=\"t\" x=\"30\" y=\"9\">");
        lh_html_point(out, dim, i, 20);
        lh_html_put(out, "</text></g>\n");
    }
    return (double)((dim->count + across - 1) / across * KEY_HEIGHT) + 4;
}

/* The first view of a figure with its panels, colours and a legend. */
static lh_status figure_svg(const lh_report *r, const lh_report_figure *f, const lh_figure_group *group, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_view view;
    lh_buf body = {0};
    lh_html h = {.out = &body};
    lh_view_init(&view, f->drawn);
    lh_drawing d = {.view = &view,
                    .palette = &r->palette,
                    .samples = &f->samples,
                    .axis = &group->axis,
                    .range = lh_axis_range(&group->axis, &group->shown),
                    .width = view.panel < 0 ? FIGURE_WIDTH : PANEL_WIDTH};
    const int64_t panels = lh_min_i64(lh_view_count(&view, view.panel), LH_PANELS), across = lh_min_i64(panels, ACROSS);
    const double width = d.width * (double)across, top = f->drawn->view == LH_VIEW_HEATMAP ? 18 : 0;
    const double bottom = top + lh_draw_height(&d) * (double)((panels + across - 1) / across);
    if (top > 0) lh_draw_colours(&d, &h);
    for (d.panel = 0; d.panel < panels; d.panel++) {
        d.at[0] = d.width * (double)(d.panel % across);
        d.at[1] = top + lh_draw_height(&d) * (double)(d.panel / across);
        lh_draw(&d, &h);
    }
    const double height = bottom + put_legend(&d, width, bottom + 4, &h);
    LH_TRY_DONE(h.st);
    h.out = out;
    lh_html_put(&h, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">\n",
                width, height, width, height);
    lh_html_put(&h, "<title>%s</title>\n<style>\n", f->figure->title);
    lh_html_raw(&h, lh_asset_drawing.text, lh_asset_drawing.bytes);
    lh_html_put(&h, "</style>\n");
    lh_html_raw(&h, body.data, body.bytes);
    lh_html_put(&h, "</svg>\n");
    st = h.st;
done:
    lh_buf_clear(&body);
    return st;
}

lh_status lh_report_svg(const lh_report *report, const char *folder)
{
    lh_status st = LH_OK;
    writing w;
    lh_buf text = {0};
    LH_TRY_DONE(open_writing(&w, report, folder, "svg"));
    for (int64_t g = 0; g < report->group_count; g++) {
        const lh_figure_group *group = &report->groups[g];
        for (int64_t i = group->first; i < group->first + group->count; i++) {
            const lh_report_figure *f = &report->figures[i];
            if (f->drawn->view == LH_VIEW_TABLE) continue;
            text.bytes = 0;
            LH_TRY_DONE(figure_svg(report, f, group, &text));
            LH_TRY_DONE(write_file(&w, f->source, f->figure->name, &text));
        }
    }
done:
    lh_buf_clear(&text);
    json_decref(w.taken);
    return st;
}

/* ---- Markdown and LaTeX ---- */

enum { COLUMNS = 16, ROWS = 40 };

/* Text in which the characters that the language reserves are escaped: `escapes` has each, then what replaces it. No
 * character may control a terminal. */
static lh_status put_escaped(lh_buf *out, const char *text, const char *const (*escapes)[2])
{
    lh_status st = LH_OK;
    lh_buf plain = {0};
    LH_TRY_DONE(lh_buf_puts(&plain, text));
    for (char *at = plain.data; *at; at++)
        if (*at == '\t' || *at == '\n') *at = ' ';
    plain.bytes = lh_text_make_plain(plain.data, plain.bytes);
    for (int64_t at = 0; at < plain.bytes; at++) {
        int e = 0;
        while (escapes[e][0] && *escapes[e][0] != plain.data[at]) e++;
        LH_TRY_DONE(escapes[e][0] ? lh_buf_puts(out, escapes[e][1]) : lh_buf_append(out, plain.data + at, 1));
    }
done:
    lh_buf_clear(&plain);
    return st;
}

static lh_status put_markdown(lh_buf *out, const char *text)
{
    static const char *const escapes[][2] = {{"|", "\\|"}, {"<", "\\<"}, {NULL, NULL}};
    return put_escaped(out, text, escapes);
}

static lh_status put_latex(lh_buf *out, const char *text)
{
    static const char *const escapes[][2] = {{"\\", "\\textbackslash{}"},
                                             {"{", "\\{"},
                                             {"}", "\\}"},
                                             {"$", "\\$"},
                                             {"&", "\\&"},
                                             {"#", "\\#"},
                                             {"%", "\\%"},
                                             {"_", "\\_"},
                                             {"~", "\\textasciitilde{}"},
                                             {"^", "\\textasciicircum{}"},
                                             {"<", "\\textless{}"},
                                             {">", "\\textgreater{}"},
                                             {NULL, NULL}};
    return put_escaped(out, text, escapes);
}

/* The numbers of a panel as cells; `put` escapes. */
static lh_status fill_cells(const lh_view *view, int64_t panel, lh_status (*put)(lh_buf *, const char *),
                            const lh_markdown *cells)
{
    lh_status st = LH_OK;
    const lh_figure_dim *dims = view->figure->dims;
    lh_buf text = {0};
    LH_TRY_DONE(put(lh_markdown_cell(cells, 0, 0), view->series < 0 ? "" : dims[view->series].name));
    for (int64_t r = 0; r < cells->rows; r++)
        for (int64_t c = 0; c < cells->width; c++) {
            text.bytes = 0;
            LH_TRY_DONE(lh_buf_puts(&text, ""));
            if ((r == 0 && c == 0) || (c == 0 && view->series < 0)) continue;
            if (r == 0)
                LH_TRY_DONE(lh_point_text(&dims[view->x], c - 1, &text));
            else if (c == 0)
                LH_TRY_DONE(lh_point_text(&dims[view->series], r - 1, &text));
            else
                LH_TRY_DONE(lh_value_text(lh_view_value(view, panel, r - 1, c - 1), view->figure->unit, &text));
            LH_TRY_DONE(put(lh_markdown_cell(cells, r, c), text.data));
        }
done:
    lh_buf_clear(&text);
    return st;
}

/* Title, unit, source, panel and means of a table, such as "Attention kept (share of 1), a, snapkv, mean over 6
 * layers". */
static lh_status put_caption(const lh_report *r, const lh_report_figure *f, const lh_view *view, int64_t panel,
                             lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, f->figure->title));
    if (*f->figure->unit) LH_TRY(lh_buf_printf(out, " (%s)", f->figure->unit));
    if (r->source_count > 1) LH_TRY(lh_buf_printf(out, ", %s", f->source->name));
    if (view->panel >= 0) {
        LH_TRY(lh_buf_puts(out, ", "));
        LH_TRY(lh_point_text(&view->figure->dims[view->panel], panel, out));
    }
    const int64_t bytes = out->bytes;
    LH_TRY(lh_buf_puts(out, ", "));
    LH_TRY(lh_view_note(view, out));
    if (out->bytes == bytes + 2) out->data[out->bytes = bytes] = '\0';
    return LH_OK;
}

static lh_status print_latex(const lh_markdown *cells, const char *caption, const char *label, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "\\begin{table}\n  \\centering\n  \\caption{"));
    LH_TRY(put_latex(out, caption));
    LH_TRY(lh_buf_printf(out, "}\n  \\label{tab:%s}\n  \\begin{tabular}{l", label));
    for (int64_t c = 1; c < cells->width; c++) LH_TRY(lh_buf_puts(out, "r"));
    LH_TRY(lh_buf_puts(out, "}\n    \\toprule\n"));
    for (int64_t r = 0; r < cells->rows; r++) {
        for (int64_t c = 0; c < cells->width; c++) {
            const lh_buf *cell = lh_markdown_cell(cells, r, c);
            LH_TRY(lh_buf_puts(out, c ? " & " : "    "));
            LH_TRY(lh_buf_append(out, cell->data, cell->bytes));
        }
        LH_TRY(lh_buf_puts(out, r ? " \\\\\n" : " \\\\\n    \\midrule\n"));
    }
    return lh_buf_puts(out, "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
}

/* A panel as a table; `latex`: its label, NULL for Markdown. */
static lh_status put_panel_table(const lh_report *r, const lh_report_figure *f, const lh_view *view, int64_t panel,
                                 const char *latex, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_markdown cells;
    lh_buf text = {0};
    LH_TRY_DONE(lh_markdown_init(&cells, lh_view_count(view, view->series) + 1, lh_view_count(view, view->x) + 1));
    LH_TRY_DONE(fill_cells(view, panel, latex ? put_latex : put_markdown, &cells));
    if (latex) {
        LH_TRY_DONE(put_caption(r, f, view, panel, &text));
        LH_TRY_DONE(print_latex(&cells, text.data, latex, out));
        goto done;
    }
    if (view->panel >= 0) {
        LH_TRY_DONE(lh_point_text(&view->figure->dims[view->panel], panel, &text));
        LH_TRY_DONE(lh_buf_puts(out, "\n"));
        LH_TRY_DONE(put_markdown(out, text.data));
        LH_TRY_DONE(lh_buf_puts(out, ":\n"));
    }
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
    LH_TRY_DONE(lh_markdown_print(&cells, 1, out));
done:
    lh_markdown_clear(&cells);
    lh_buf_clear(&text);
    return st;
}

static int is_table(const lh_view *view)
{
    return lh_view_count(view, view->x) <= COLUMNS && lh_view_count(view, view->series) <= ROWS;
}

lh_status lh_report_latex(const lh_report *r, lh_buf *out)
{
    char label[2 * LH_FIGURE_NAME + 32];
    LH_TRY(lh_buf_puts(out, "% \\usepackage{booktabs}\n"));
    for (int64_t i = 0; i < r->figure_count; i++) {
        const lh_report_figure *f = &r->figures[i];
        lh_view view;
        lh_view_init(&view, f->figure);
        if (!is_table(&view)) {
            LH_TRY(lh_buf_printf(out, "\n%% %s: %lld x %lld values, see --csv\n", f->figure->name,
                                 (long long)lh_view_count(&view, view.series),
                                 (long long)lh_view_count(&view, view.x)));
            continue;
        }
        for (int64_t p = 0; p < lh_view_count(&view, view.panel); p++) {
            snprintf(label, sizeof label,
                     p   ? "%s-%lld-%lld"
                     : i ? "%s-%lld"
                         : "%s",
                     f->figure->name, (long long)i, (long long)p);
            LH_TRY(lh_buf_puts(out, "\n"));
            LH_TRY(put_panel_table(r, f, &view, p, label, out));
        }
    }
    return LH_OK;
}

static lh_status put_figure_markdown(const lh_report *r, const lh_report_figure *f, lh_buf *out)
{
    lh_view view;
    lh_view_init(&view, f->figure);
    LH_TRY(lh_buf_puts(out, "\n"));
    if (r->source_count > 1) {
        LH_TRY(lh_buf_puts(out, "**"));
        LH_TRY(put_markdown(out, f->source->name));
        LH_TRY(lh_buf_puts(out, "** "));
    }
    LH_TRY(lh_view_note(&view, out));
    LH_TRY(lh_buf_puts(out, "\n"));
    if (!is_table(&view))
        return lh_buf_printf(out, "\n(%lld x %lld values: see --csv)\n", (long long)lh_view_count(&view, view.series),
                             (long long)lh_view_count(&view, view.x));
    for (int64_t p = 0; p < lh_view_count(&view, view.panel); p++) LH_TRY(put_panel_table(r, f, &view, p, NULL, out));
    return LH_OK;
}

lh_status lh_report_markdown(const lh_report *report, lh_buf *out)
{
    for (int64_t g = 0; g < report->group_count; g++) {
        const lh_figure_group *group = &report->groups[g];
        const lh_figure *f = report->figures[group->first].figure;
        LH_TRY(lh_buf_puts(out, g ? "\n## " : "## "));
        LH_TRY(put_markdown(out, f->title));
        if (*f->unit) {
            LH_TRY(lh_buf_puts(out, " ("));
            LH_TRY(put_markdown(out, f->unit));
            LH_TRY(lh_buf_puts(out, ")"));
        }
        LH_TRY(lh_buf_puts(out, "\n\n"));
        LH_TRY(put_markdown(out, f->about));
        if (*f->source) {
            LH_TRY(lh_buf_puts(out, " "));
            LH_TRY(put_markdown(out, f->source));
            LH_TRY(lh_buf_puts(out, "."));
        }
        LH_TRY(lh_buf_puts(out, "\n"));
        for (int64_t i = group->first; i < group->first + group->count; i++)
            LH_TRY(put_figure_markdown(report, &report->figures[i], out));
    }
    return LH_OK;
}
