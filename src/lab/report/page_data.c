/* page_data.c - the figures and tables as one block of JSON, which the scripts read. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "lab/report/escape.h"
#include "lab/report/report_impl.h"

enum { MAX_ROWS = 5000 };

static json_t *text_json(const char *text)
{
    return lh_json_text(text, (int64_t)strlen(text));
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *dim_json(const lh_figure_dim *dim)
{
    json_t *points = json_array();
    for (int64_t i = 0; (dim->labels || dim->values) && i < dim->count; i++)
        json_array_append_new(points, dim->labels ? text_json(dim->labels[i]) : json_real(dim->values[i]));
    return json_pack("{s:o, s:o, s:I, s:o*}", "name", text_json(dim->name), "unit",
                     text_json(dim->unit ? dim->unit : ""), "count", (json_int_t)dim->count,
                     dim->labels ? "labels" : "values",
                     dim->labels || dim->values ? points : (json_decref(points), NULL));
}

/* Pairs [policy, budget] of the cells that protected entries fill. */
static json_t *filled_json(const lh_sheet *sheet)
{
    const lh_samples *s = &sheet->samples;
    const int policy = lh_figure_dim_find(sheet->drawn, "policy");
    json_t *pairs = json_array();
    for (int64_t p = 0; s->filled && p < sheet->drawn->dims[policy].count; p++)
        for (int64_t b = 0; b < s->budgets; b++)
            if (lh_samples_filled(s, p, b))
                json_array_append_new(pairs, json_pack("[I, I]", (json_int_t)p, (json_int_t)b));
    return pairs;
}

static json_t *sheet_json(const lh_report *r, const lh_sheet *sheet)
{
    const lh_figure *f = sheet->drawn;
    json_t *dims = json_array(), *values = json_array();
    for (int d = 0; d < f->dim_count; d++) json_array_append_new(dims, dim_json(&f->dims[d]));
    for (int64_t i = 0; i < lh_figure_count(f); i++) json_array_append_new(values, number_json((double)f->values[i]));
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:i, s:I, s:b, s:o, s:o, s:o}", "name", f->name, "title",
                     text_json(f->title), "unit", text_json(f->unit), "view", lh_figure_view_name(f->view), "x",
                     text_json(f->x), "y", text_json(f->y), "better", f->better, "source",
                     (json_int_t)(sheet->source - r->sources), "averaged", sheet->drawn != sheet->figure, "dims", dims,
                     "values", values, "filled", filled_json(sheet));
}

static json_t *cell_json(const lh_column *column, const lh_cell *cell)
{
    if (column->type == LH_COLUMN_I64) return json_integer(cell->number);
    return column->type == LH_COLUMN_F64 ? number_json(cell->value) : text_json(cell->text);
}

static json_t *table_json(const lh_stored_table *stored)
{
    const lh_table *table = &stored->table;
    json_t *columns = json_array(), *rows = json_array();
    for (int64_t c = 0; c < table->width; c++) json_array_append_new(columns, text_json(table->columns[c].name));
    for (int64_t i = 0; i < table->n && i < MAX_ROWS; i++) {
        json_t *row = json_array();
        for (int64_t c = 0; c < table->width; c++)
            json_array_append_new(row, cell_json(&table->columns[c], &lh_table_row(table, i)[c]));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o, s:o}", "name", text_json(stored->name), "columns", columns, "rows", rows);
}

lh_status lh_page_data(const lh_report *r, lh_buf *out)
{
    lh_status st = LH_OK;
    json_t *sources = json_array(), *policies = json_array(), *sheets = json_array(), *tables = json_array(),
           *all = NULL;
    for (int64_t s = 0; s < r->source_count; s++) {
        json_array_append_new(sources, text_json(r->sources[s].name));
        for (int64_t i = 0; i < r->sources[s].tables.count; i++)
            json_array_append_new(tables, table_json(&r->sources[s].tables.list[i]));
    }
    for (int64_t i = 0; i < r->palette.count; i++) json_array_append_new(policies, text_json(r->palette.policies[i]));
    for (int64_t i = 0; i < r->sheet_count; i++)
        if (json_array_append_new(sheets, sheet_json(r, &r->sheets[i])) != 0)
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the data of the page");
    all =
        json_pack("{s:O, s:O, s:O, s:O}", "sources", sources, "policies", policies, "sheets", sheets, "tables", tables);
    if (!all) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the data of the page");
    LH_TRY_DONE(lh_buf_puts(out, "<script type=\"application/json\" id=\"data\">"));
    LH_TRY_DONE(lh_html_json(out, all));
    LH_TRY_DONE(lh_buf_puts(out, "</script>\n"));
done:
    json_decref(all);
    json_decref(sources);
    json_decref(policies);
    json_decref(sheets);
    json_decref(tables);
    return st;
}
