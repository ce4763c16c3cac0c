/* table.c - tables of results as CSV, JSON and HDF5. */
#include "base/table.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

void lh_table_init(lh_table *table, const lh_column *columns)
{
    *table = (lh_table){.columns = columns};
    while (columns[table->width].name) table->width++;
}

int lh_column_is_text(const lh_column *column)
{
    return column->type == LH_COLUMN_TEXT || column->type == LH_COLUMN_LABEL;
}

void lh_table_clear(lh_table *table)
{
    for (int64_t i = 0; i < table->n * table->width; i++)
        if (lh_column_is_text(&table->columns[i % table->width])) lh_free((char *)(uintptr_t)table->cells[i].text);
    lh_free(table->cells);
    *table = (lh_table){0};
}

lh_status lh_table_add(lh_table *table, const lh_cell *row)
{
    if (table->n == table->cap) {
        LH_TRY(lh_realloc(&table->cells, (2 * table->cap + 16) * table->width, sizeof *table->cells));
        table->cap = 2 * table->cap + 16;
    }
    lh_cell *to = table->cells + table->n * table->width;
    memcpy(to, row, (size_t)table->width * sizeof *to);
    for (int64_t c = 0; c < table->width; c++) to[c].text = NULL;
    table->n++; /* now: a partly copied row is freed with the table */
    for (int64_t c = 0; c < table->width; c++) {
        char *copy = NULL;
        if (!lh_column_is_text(&table->columns[c])) continue;
        LH_TRY(lh_strdup(&copy, row[c].text ? row[c].text : ""));
        to[c].text = copy;
    }
    return LH_OK;
}

const lh_cell *lh_table_row(const lh_table *table, int64_t i)
{
    return table->cells + i * table->width;
}

static lh_status csv_text(lh_buf *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) return lh_buf_puts(out, text);
    LH_TRY(lh_buf_puts(out, "\""));
    for (; *text; text++) {
        if (*text == '"') LH_TRY(lh_buf_puts(out, "\""));
        LH_TRY(lh_buf_append(out, text, 1));
    }
    LH_TRY(lh_buf_puts(out, "\""));
    return LH_OK;
}

lh_status lh_table_csv(const lh_table *table, lh_buf *out)
{
    for (int64_t c = 0; c < table->width; c++) {
        if (c) LH_TRY(lh_buf_puts(out, ","));
        LH_TRY(csv_text(out, table->columns[c].name));
    }
    LH_TRY(lh_buf_puts(out, "\n"));
    for (int64_t i = 0; i < table->n; i++) {
        const lh_cell *row = lh_table_row(table, i);
        for (int64_t c = 0; c < table->width; c++) {
            if (c) LH_TRY(lh_buf_puts(out, ","));
            if (lh_column_is_text(&table->columns[c]))
                LH_TRY(csv_text(out, row[c].text));
            else if (table->columns[c].type == LH_COLUMN_I64)
                LH_TRY(lh_buf_printf(out, "%lld", (long long)row[c].number));
            else if (!isnan(row[c].value))
                LH_TRY(lh_buf_printf(out, "%.9g", row[c].value));
        }
        LH_TRY(lh_buf_puts(out, "\n"));
    }
    return LH_OK;
}

static json_t *cell_json(const lh_column *column, const lh_cell *cell)
{
    if (lh_column_is_text(column)) return lh_json_text(cell->text, (int64_t)strlen(cell->text));
    if (column->type == LH_COLUMN_I64) return json_integer(cell->number);
    return isnan(cell->value) ? json_null() : json_real(cell->value);
}

lh_status lh_table_json(const lh_table *table, json_t **out)
{
    lh_status st = LH_OK;
    json_t *rows = json_array();
    for (int64_t i = 0; i < table->n; i++) {
        json_t *object = json_object();
        int failed = json_array_append_new(rows, object);
        for (int64_t c = 0; c < table->width; c++)
            failed |= json_object_set_new(object, table->columns[c].name,
                                          cell_json(&table->columns[c], &lh_table_row(table, i)[c]));
        if (failed) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the results as JSON");
    }
    *out = json_incref(rows);
done:
    json_decref(rows);
    return st;
}

/* ---- analysis files ---- */

static lh_status put_numbers(const lh_table *table, int64_t c, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    int64_t *whole = NULL;
    float *real = NULL;
    if (table->columns[c].type == LH_COLUMN_I64) {
        LH_TRY_DONE(lh_calloc(&whole, table->n, sizeof *whole));
        for (int64_t i = 0; i < table->n; i++) whole[i] = lh_table_row(table, i)[c].number;
        LH_TRY_DONE(lh_h5_put(h5, name, &(lh_h5_shape){LH_I64, 1, {table->n}}, whole));
    } else {
        LH_TRY_DONE(lh_calloc(&real, table->n, sizeof *real));
        for (int64_t i = 0; i < table->n; i++) real[i] = (float)lh_table_row(table, i)[c].value;
        LH_TRY_DONE(lh_h5_put(h5, name, &(lh_h5_shape){LH_F32, 1, {table->n}}, real));
    }
done:
    lh_free(whole);
    lh_free(real);
    return st;
}

static lh_status put_texts(const lh_table *table, int64_t c, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *array = json_array();
    for (int64_t i = 0; i < table->n; i++)
        json_array_append_new(array, cell_json(&table->columns[c], &lh_table_row(table, i)[c]));
    LH_TRY_DONE(lh_json_dump(&text, array, JSON_COMPACT));
    LH_TRY_DONE(lh_h5_put_text(h5, name, text, (int64_t)strlen(text)));
done:
    lh_free(text);
    json_decref(array);
    return st;
}

/* The index of a label, in the order of first appearance. */
static int32_t number_of(const lh_table *table, int64_t c, const char *label, json_t *labels)
{
    const size_t n = json_array_size(labels);
    for (size_t k = 0; k < n; k++)
        if (strcmp(json_string_value(json_array_get(labels, k)), label) == 0) return (int32_t)k;
    json_array_append_new(labels, cell_json(&table->columns[c], &(lh_cell){.text = label}));
    return (int32_t)n;
}

static lh_status put_labels(const lh_table *table, int64_t c, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int32_t *codes = NULL;
    json_t *labels = json_array();
    LH_TRY_DONE(lh_calloc(&codes, table->n, sizeof *codes));
    for (int64_t i = 0; i < table->n; i++) codes[i] = number_of(table, c, lh_table_row(table, i)[c].text, labels);
    LH_TRY_DONE(lh_h5_put(h5, name, &(lh_h5_shape){LH_I32, 1, {table->n}}, codes));
    LH_TRY_DONE(lh_json_dump(&text, labels, JSON_COMPACT));
    LH_TRY_DONE(lh_h5_put_string(h5, name, "labels", text));
done:
    lh_free(text);
    lh_free(codes);
    json_decref(labels);
    return st;
}

/* The order of the columns, which HDF5 sorts by name. */
static lh_status put_order(const lh_table *table, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *names = json_array();
    for (int64_t c = 0; c < table->width; c++) json_array_append_new(names, json_string(table->columns[c].name));
    LH_TRY_DONE(lh_json_dump(&text, names, JSON_COMPACT));
    LH_TRY_DONE(lh_h5_put_string(h5, name, "columns", text));
done:
    lh_free(text);
    json_decref(names);
    return st;
}

lh_status lh_table_h5(const lh_table *table, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *path = NULL;
    for (int64_t c = 0; c < table->width && table->n > 0; c++) {
        const lh_column *column = &table->columns[c];
        lh_free(path);
        path = NULL;
        LH_TRY_DONE(lh_asprintf(&path, "%s/%s", name, column->name));
        if (column->type == LH_COLUMN_TEXT)
            LH_TRY_DONE(put_texts(table, c, h5, path));
        else if (column->type == LH_COLUMN_LABEL)
            LH_TRY_DONE(put_labels(table, c, h5, path));
        else
            LH_TRY_DONE(put_numbers(table, c, h5, path));
        LH_TRY_DONE(lh_h5_put_string(h5, path, "unit", column->unit));
    }
    if (table->n > 0) LH_TRY_DONE(put_order(table, h5, name));
done:
    lh_free(path);
    return st;
}
