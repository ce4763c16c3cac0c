/* page.c - the page: head with the policy for scripts and styles, summary, figures with their numbers and commands,
 * tables, data and script. Only the script and the styles with a named hash may run or apply, and nothing may be
 * loaded: texts of the files could not run even if they were markup. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/report/report_impl.h"

enum { TABLE_CELLS = 1200, TABLE_ROWS = 200, DATA_ROWS = 5000, WIDE_COLUMNS = 64, KEYS = 7 };
enum { WIDE = 1080, NORMAL = 540, NARROW = 360, PANEL = 260 }; /* widths of drawings, known to page.css */

/* ---- head and foot ---- */

static void put_hash(const lh_asset *asset, lh_html *out)
{
    lh_html_put(out, " 'sha256-");
    if (out->st == LH_OK) out->st = lh_base64(out->out, asset->sha256, sizeof asset->sha256);
    lh_html_put(out, "'");
}

static void put_asset(const char *open, const lh_asset *asset, const char *close, lh_html *out)
{
    lh_html_raw(out, open, (int64_t)strlen(open));
    lh_html_raw(out, asset->text, asset->bytes);
    lh_html_raw(out, close, (int64_t)strlen(close));
}

static void put_head(const lh_report *r, lh_html *out)
{
    lh_html_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
                     "form-action 'none'; script-src");
    put_hash(&lh_asset_js, out);
    lh_html_put(out, "; style-src");
    put_hash(&lh_asset_drawing, out);
    put_hash(&lh_asset_page, out);
    lh_html_put(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    for (int64_t s = 0; s < r->source_count; s++) lh_html_put(out, s ? ", %s" : "%s", r->sources[s].name);
    lh_html_put(out, " · Longhaul report</title>\n");
    put_asset("<style id=\"drawing\">", &lh_asset_drawing, "</style>\n", out);
    put_asset("<style>", &lh_asset_page, "</style>\n</head>\n", out);
}

static void put_files(const lh_report *r, lh_html *out)
{
    lh_html_put(out, "<footer>\n<h2>Files</h2>\n<dl>\n");
    for (int64_t s = 0; s < r->source_count; s++) {
        const lh_report_source *source = &r->sources[s];
        lh_html_put(out, "<dt>%s</dt>\n<dd>", source->path);
        if (source->command) lh_html_put(out, "<code>%s</code> ", source->command);
        lh_html_put(out, "%s</dd>\n", source->created_by ? source->created_by : "");
    }
    lh_html_put(out, "</dl>\n<p>Made by <code>longhaul report</code>. The page loads nothing and works offline.</p>\n"
                     "</footer>\n");
}

/* One button for each policy; page.js adds the choices of layers, heads and other dimensions. */
static void put_controls(const lh_report *r, lh_html *out)
{
    lh_html_put(out, "<div id=\"controls\" hidden>");
    if (r->palette.count > 1) lh_html_put(out, "<div class=\"policies\" role=\"group\" aria-label=\"Policies\">");
    for (int64_t i = 0; i < r->palette.count && r->palette.count > 1; i++) {
        const lh_figure_dim dim = {.name = "policy", .count = 1, .labels = &r->palette.policies[i]};
        lh_html_put(out, "<button type=\"button\" class=\"policy\" aria-pressed=\"true\" value=\"%s\">", dim.labels[0]);
        lh_draw_key(&r->palette, &dim, 0, out);
        lh_html_put(out, "<span>%s</span></button>", dim.labels[0]);
    }
    lh_html_put(out, r->palette.count > 1 ? "</div></div>\n" : "</div>\n");
}

/* ---- numbers of a figure ---- */

static void put_panel(const lh_report_figure *f, const lh_view *view, int64_t panel, lh_html *out)
{
    const lh_figure_dim *dims = view->figure->dims;
    const int64_t rows = lh_view_count(view, view->series), columns = lh_view_count(view, view->x);
    lh_html_put(out, "<div class=\"scroll\"><table>\n");
    if (view->panel >= 0) {
        lh_html_put(out, "<caption>");
        lh_html_point(out, &dims[view->panel], panel, 0);
        lh_html_put(out, "</caption>\n");
    }
    lh_html_put(out, "<thead><tr><th scope=\"col\">%s</th>", dims[view->x].name);
    for (int64_t c = 0; c < columns; c++) {
        lh_html_put(out, "<th scope=\"col\">");
        lh_html_point(out, &dims[view->x], c, 0);
        lh_html_put(out, "</th>");
    }
    lh_html_put(out, "</tr></thead>\n<tbody>\n");
    for (int64_t s = 0; s < rows; s++) {
        lh_html_put(out, "<tr><th scope=\"row\">");
        if (view->series >= 0) lh_html_point(out, &dims[view->series], s, 0);
        lh_html_put(out, "</th>");
        for (int64_t c = 0; c < columns; c++) {
            lh_html_put(out, lh_samples_filled_at(&f->samples, view, s, c) ? "<td" LH_FILLED_CELL ">" : "<td>");
            lh_html_value(out, lh_view_value(view, panel, s, c), view->figure->unit);
            lh_html_put(out, "</td>");
        }
        lh_html_put(out, "</tr>\n");
    }
    lh_html_put(out, "</tbody></table></div>\n");
}

static void put_numbers(const lh_report_figure *f, const lh_view *view, lh_html *out)
{
    const int64_t panels = lh_view_count(view, view->panel);
    if (panels * lh_view_count(view, view->series) * lh_view_count(view, view->x) > TABLE_CELLS) return;
    lh_html_put(out, view->figure->view == LH_VIEW_TABLE ? "<details open>" : "<details>");
    lh_html_put(out, "<summary>Numbers</summary>\n");
    for (int64_t p = 0; p < panels; p++) put_panel(f, view, p, out);
    lh_html_put(out, "</details>\n");
}

/* ---- figures ---- */

static int has_filled(const lh_report_figure *f, const lh_view *view)
{
    for (int64_t s = 0; s < lh_view_count(view, view->series); s++)
        for (int64_t x = 0; x < lh_view_count(view, view->x); x++)
            if (lh_samples_filled_at(&f->samples, view, s, x)) return 1;
    return 0;
}

static int has_bands(const lh_report_figure *f, const lh_view *view)
{
    double band[2];
    for (int64_t s = 0; s < lh_view_count(view, view->series); s++)
        for (int64_t x = 0; x < lh_view_count(view, view->x); x++)
            if (lh_samples_band(&f->samples, view, s, x, band)) return 1;
    return 0;
}

/* Names of series that have no button, some of many. */
static void put_keys(const lh_report *r, const lh_view *view, lh_html *out)
{
    if (view->series < 0 || lh_dim_is_policies(&view->figure->dims[view->series])) return;
    const lh_figure_dim *dim = &view->figure->dims[view->series];
    const int64_t n = lh_min_i64(dim->count, KEYS);
    lh_html_put(out, "<p class=\"keys\"><span>%s</span>", dim->name);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = n > 1 ? k * (dim->count - 1) / (n - 1) : 0;
        lh_html_put(out, "<span>");
        lh_draw_key(&r->palette, dim, i, out);
        lh_html_put(out, "<span>");
        lh_html_point(out, dim, i, 0);
        lh_html_put(out, "</span></span>");
    }
    lh_html_put(out, "</p>");
}

/* A figure without panels in two widths (page.css shows one of them); else one drawing for each panel. */
static void put_drawings(const lh_report *r, const lh_report_figure *f, const lh_figure_group *group, lh_html *out)
{
    lh_view view;
    lh_view_init(&view, f->drawn);
    lh_drawing d = {.view = &view,
                    .palette = &r->palette,
                    .samples = &f->samples,
                    .axis = &group->axis,
                    .range = lh_axis_range(&group->axis, &group->shown),
                    .live = 1};
    const int64_t panels = lh_min_i64(lh_view_count(&view, view.panel), LH_PANELS);
    lh_html_put(out, "<div class=\"figure\">");
    if (f->drawn->view == LH_VIEW_HEATMAP)
        lh_draw_colours(&d, out);
    else if (f->drawn->view != LH_VIEW_TABLE)
        put_keys(r, &view, out);
    if (view.panel < 0) {
        const int wide = group->count == 1 && lh_view_count(&view, view.x) > WIDE_COLUMNS;
        d.width = wide ? WIDE : NORMAL;
        lh_draw(&d, out);
        d.width = NARROW;
        lh_draw(&d, out);
    } else {
        d.width = PANEL;
        lh_html_put(out, "<div class=\"panels\">");
        for (d.panel = 0; d.panel < panels; d.panel++) lh_draw(&d, out);
        lh_html_put(out, "</div>");
        if (lh_view_count(&view, view.panel) > panels)
            lh_html_put(out, "<p class=\"aside\">The first %lld of %lld.</p>\n", (long long)panels,
                        (long long)lh_view_count(&view, view.panel));
    }
    lh_html_put(out, "</div>\n");
    if (has_filled(f, &view)) lh_html_put(out, "<p class=\"aside\">Hollow points: " LH_FILLED_NOTE ".</p>\n");
    if (f->drawn->view == LH_VIEW_CURVES && has_bands(f, &view))
        lh_html_put(out, "<p class=\"aside\">Bands: 95%% confidence intervals of the means over %lld %s%s.</p>\n",
                    (long long)f->samples.texts, f->samples.by_window ? "windows" : "texts",
                    lh_view_count(&view, view.series) > LH_BANDS ? ", of the line at the pointer" : "");
    put_numbers(f, &view, out);
}

static void put_figure(const lh_report *r, int64_t at, const lh_figure_group *group, lh_html *out)
{
    const lh_report_figure *f = &r->figures[at];
    lh_view view;
    lh_buf note = {0};
    lh_view_init(&view, f->drawn);
    lh_html_put(out, "<figure data-figure=\"%lld\">\n<figcaption>", (long long)at);
    if (r->source_count > 1) lh_html_put(out, "<b>%s</b> ", f->source->name);
    if (out->st == LH_OK) out->st = lh_view_note(&view, &note);
    lh_html_put(out, "<span class=\"note\">%s</span></figcaption>\n", note.data ? note.data : "");
    lh_buf_clear(&note);
    put_drawings(r, f, group, out);
    if (f->drawn != f->figure)
        lh_html_put(
            out, "<p class=\"aside\">Too large for a page: neighbours are averaged. '--csv' writes all values.</p>\n");
    if (f->source->command) lh_html_put(out, "<p class=\"command\"><code>%s</code></p>\n", f->source->command);
    lh_html_put(out, "</figure>\n");
}

static void put_group(const lh_report *r, const lh_figure_group *group, lh_html *out)
{
    const lh_figure *f = r->figures[group->first].figure;
    lh_view view;
    lh_view_init(&view, f);
    const int wide = group->count > 1 || view.panel >= 0 || lh_view_count(&view, view.x) > WIDE_COLUMNS;
    lh_html_put(out, "<section class=\"group%s\" id=\"%s\">\n<h2>%s</h2>\n", wide ? " wide" : "", f->name, f->title);
    lh_html_put(out, "<p class=\"about\">%s", f->about);
    if (*f->source) lh_html_put(out, " <cite>%s</cite>", f->source);
    lh_html_put(out, "</p>\n<div class=\"figures n%d\">\n", (int)lh_min_i64(group->count, 3));
    for (int64_t i = group->first; i < group->first + group->count; i++) put_figure(r, i, group, out);
    lh_html_put(out, "</div>\n</section>\n");
}

/* ---- tables of the files ---- */

static void put_table(const lh_stored_table *stored, int64_t number, lh_html *out)
{
    const lh_table *table = &stored->table;
    lh_html_put(out, "<details class=\"rows\" data-table=\"%lld\"><summary>%s, %lld rows</summary>\n",
                (long long)number, stored->name, (long long)table->n);
    lh_html_put(out, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (int64_t c = 0; c < table->width; c++)
        lh_html_put(out, "<th scope=\"col\" title=\"%s\">%s</th>", table->columns[c].unit, table->columns[c].name);
    lh_html_put(out, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < lh_min_i64(table->n, TABLE_ROWS); i++) {
        lh_html_put(out, "<tr>");
        for (int64_t c = 0; c < table->width; c++) {
            const lh_cell *cell = &lh_table_row(table, i)[c];
            const lh_column_type type = table->columns[c].type;
            if (type == LH_COLUMN_I64) lh_html_put(out, "<td>%lld</td>", (long long)cell->number);
            if (type == LH_COLUMN_TEXT || type == LH_COLUMN_LABEL)
                lh_html_put(out, "<td class=\"text\">%s</td>", cell->text);
            if (type != LH_COLUMN_F64) continue;
            lh_html_put(out, "<td>");
            lh_html_value(out, cell->value, "");
            lh_html_put(out, "</td>");
        }
        lh_html_put(out, "</tr>\n");
    }
    lh_html_put(out, "</tbody></table></div>\n");
    if (table->n > TABLE_ROWS) lh_html_put(out, "<p class=\"aside\">The first %d rows.</p>\n", TABLE_ROWS);
    lh_html_put(out, "</details>\n");
}

static void put_tables(const lh_report *r, lh_html *out)
{
    int64_t number = 0;
    for (int64_t s = 0; s < r->source_count; s++) {
        const lh_tables *tables = &r->sources[s].tables;
        for (int64_t i = 0; i < tables->count; i++) {
            if (!number) lh_html_put(out, "<section class=\"group wide\" id=\"tables\">\n<h2>Tables</h2>\n");
            if (i == 0 && r->source_count > 1) lh_html_put(out, "<h3>%s</h3>\n", r->sources[s].name);
            put_table(&tables->list[i], number++, out);
        }
    }
    if (number) lh_html_put(out, "</section>\n");
}

/* ---- data for the script ---- */

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* A dimension; `mean`: how the note of a figure names the mean over it. */
static json_t *dim_json(const lh_figure_dim *dim)
{
    json_t *out = json_pack("{s:o, s:I, s:b}", "name", lh_html_json_text(dim->name), "count", (json_int_t)dim->count,
                            "policies", lh_dim_is_policies(dim));
    json_t *points = json_array(), *texts = json_array();
    lh_buf text = {0};
    for (int64_t i = 0; (dim->labels || dim->values) && i < dim->count; i++) {
        text.bytes = 0;
        json_array_append_new(points, dim->labels ? lh_html_json_text(dim->labels[i]) : json_real(dim->values[i]));
        if (dim->values && lh_point_text(dim, i, &text) == LH_OK)
            json_array_append_new(texts, lh_html_json_text(text.data));
    }
    if (dim->labels) json_object_set(out, "labels", points);
    if (dim->values) json_object_set(out, "values", points);
    if (dim->values) json_object_set(out, "texts", texts);
    text.bytes = 0;
    if (lh_view_note_mean(dim, &text) == LH_OK) json_object_set_new(out, "mean", lh_html_json_text(text.data));
    lh_buf_clear(&text);
    json_decref(points);
    json_decref(texts);
    return out;
}

/* The cells [policy, budget] that protected entries fill, and the intervals [policy, budget, low, high]. */
static void add_cells(const lh_report_figure *f, const lh_view *view, json_t *filled, json_t *bands)
{
    double band[2];
    for (int64_t s = 0; s < lh_view_count(view, view->series); s++)
        for (int64_t x = 0; x < lh_view_count(view, view->x); x++) {
            if (lh_samples_filled_at(&f->samples, view, s, x))
                json_array_append_new(filled, json_pack("[I, I]", (json_int_t)s, (json_int_t)x));
            if (lh_samples_band(&f->samples, view, s, x, band))
                json_array_append_new(bands, json_pack("[I, I, f, f]", (json_int_t)s, (json_int_t)x, band[0], band[1]));
        }
}

static json_t *figure_json(const lh_report *r, int64_t at)
{
    const lh_report_figure *shown = &r->figures[at];
    const lh_figure *f = shown->drawn;
    lh_view view;
    json_t *dims = json_array(), *values = json_array(), *pick = json_array(), *filled = json_array();
    json_t *bands = json_array();
    int log = 0;
    lh_view_init(&view, f);
    add_cells(shown, &view, filled, bands);
    for (int64_t g = 0; g < r->group_count; g++)
        if (r->groups[g].first <= at) log = r->groups[g].axis.log;
    for (int d = 0; d < f->dim_count; d++) {
        json_array_append_new(dims, dim_json(&f->dims[d]));
        json_array_append_new(pick, json_integer(lh_view_draws(&view, d) ? -1 : view.pick[d]));
    }
    for (int64_t i = 0; i < lh_figure_count(f); i++) json_array_append_new(values, number_json((double)f->values[i]));
    return json_pack("{s:s, s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o}", "name", f->name, "title",
                     lh_html_json_text(f->title), "unit", lh_html_json_text(f->unit), "view",
                     lh_figure_view_name(f->view), "better", f->better, "x", view.x, "series", view.series, "panel",
                     view.panel, "log", log, "pick", pick, "dims", dims, "values", values, "filled", filled, "bands",
                     bands);
}

static json_t *table_json(const lh_stored_table *stored)
{
    const lh_table *table = &stored->table;
    json_t *columns = json_array(), *rows = json_array();
    for (int64_t c = 0; c < table->width; c++)
        json_array_append_new(columns, lh_html_json_text(table->columns[c].name));
    for (int64_t i = 0; i < lh_min_i64(table->n, DATA_ROWS); i++) {
        json_t *row = json_array();
        for (int64_t c = 0; c < table->width; c++) {
            const lh_cell *cell = &lh_table_row(table, i)[c];
            const lh_column_type type = table->columns[c].type;
            json_array_append_new(row, type == LH_COLUMN_I64   ? json_integer(cell->number)
                                       : type == LH_COLUMN_F64 ? number_json(cell->value)
                                                               : lh_html_json_text(cell->text));
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o, s:o}", "name", lh_html_json_text(stored->name), "columns", columns, "rows", rows);
}

static lh_status put_data(const lh_report *r, lh_buf *out)
{
    lh_status st = LH_OK;
    json_t *figures = json_array(), *tables = json_array(), *all = NULL;
    for (int64_t s = 0; s < r->source_count; s++)
        for (int64_t i = 0; i < r->sources[s].tables.count; i++)
            json_array_append_new(tables, table_json(&r->sources[s].tables.list[i]));
    for (int64_t i = 0; i < r->figure_count; i++)
        if (json_array_append_new(figures, figure_json(r, i)) != 0)
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the data of the page");
    all = json_pack("{s:O, s:O}", "figures", figures, "tables", tables);
    if (!all) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the data of the page");
    LH_TRY_DONE(lh_buf_puts(out, "<script type=\"application/json\" id=\"data\">"));
    LH_TRY_DONE(lh_html_json(out, all));
    LH_TRY_DONE(lh_buf_puts(out, "</script>\n"));
done:
    json_decref(all);
    json_decref(figures);
    json_decref(tables);
    return st;
}

lh_status lh_report_page(const lh_report *r, lh_buf *out)
{
    lh_html h = {.out = out};
    put_head(r, &h);
    lh_html_put(&h, "<body>\n");
    lh_page_summary(r, &h);
    put_controls(r, &h);
    lh_html_put(&h, "<main>\n");
    for (int64_t g = 0; g < r->group_count; g++) put_group(r, &r->groups[g], &h);
    lh_page_prompts(r, &h);
    put_tables(r, &h);
    lh_html_put(&h, "</main>\n");
    put_files(r, &h);
    LH_TRY(h.st);
    LH_TRY(put_data(r, out));
    put_asset("<script>", &lh_asset_js, "</script>\n</body>\n</html>\n", &h);
    return h.st;
}
