/* tables.c - first the columns of all groups are listed, then read table by table, and put row by row into an
 * lh_table. */
#include "lab/analysis/tables.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

int64_t lh_table_column_find(const lh_table *table, const char *name)
{
    for (int64_t c = 0; c < table->width; c++)
        if (strcmp(table->columns[c].name, name) == 0) return c;
    return -1;
}

void lh_tables_clear(lh_tables *tables)
{
    for (int64_t i = 0; i < tables->count; i++) {
        lh_stored_table *t = &tables->list[i];
        lh_table_clear(&t->table);
        for (int64_t c = 0; t->columns && t->columns[c].name; c++) {
            lh_free((char *)(uintptr_t)t->columns[c].name);
            lh_free((char *)(uintptr_t)t->columns[c].unit);
        }
        lh_free(t->columns);
        lh_free(t->name);
    }
    lh_free(tables->list);
    *tables = (lh_tables){0};
}

/* ---- columns ---- */

/* The content of a column, by its type: numbers, indices of labels, or texts. */
typedef struct stored_column {
    int64_t n;
    int64_t *whole;
    float *real;
    int32_t *codes;
    json_t *texts; /* labels, or one for each row */
} stored_column;

static void clear_column(stored_column *c)
{
    lh_free(c->whole);
    lh_free(c->real);
    lh_free(c->codes);
    json_decref(c->texts);
    *c = (stored_column){0};
}

static lh_status check_texts(const json_t *list, const lh_h5 *h5, const char *name)
{
    if (!json_is_array(list)) LH_FAIL(LH_EFILE, "'%s' of '%s' is no JSON array of texts", name, lh_h5_path(h5));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            LH_FAIL(LH_EFILE, "item %zu of '%s' of '%s' is no text", i, name, lh_h5_path(h5));
    return LH_OK;
}

static lh_status read_labels(stored_column *c, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *labels = NULL;
    LH_TRY_DONE(lh_h5_get_string(h5, name, "labels", &labels));
    c->texts = labels ? json_loads(labels, 0, NULL) : NULL;
    LH_TRY_DONE(check_texts(c->texts, h5, name));
    for (int64_t i = 0; i < c->n; i++)
        if (c->codes[i] < 0 || c->codes[i] >= (int64_t)json_array_size(c->texts))
            LH_FAIL_DONE(LH_EFILE, "row %lld of '%s' of '%s' has the label %d, there are %zu", (long long)i, name,
                         lh_h5_path(h5), c->codes[i], json_array_size(c->texts));
done:
    lh_free(labels);
    return st;
}

static lh_status read_text_column(stored_column *c, lh_column *column, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    column->type = LH_COLUMN_TEXT;
    LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
    c->texts = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL, NULL);
    LH_TRY_DONE(check_texts(c->texts, h5, name));
    c->n = (int64_t)json_array_size(c->texts);
done:
    lh_free(text);
    return st;
}

static lh_status read_number_column(stored_column *c, lh_column *column, lh_h5 *h5, const char *name)
{
    lh_h5_array *array = NULL;
    lh_h5_shape shape;
    LH_TRY(lh_h5_array_open(&array, h5, name));
    shape = *lh_h5_array_shape(array);
    lh_h5_array_close(array);
    const lh_h5_shape want = {.type = shape.type, .rank = 1, .dims = {-1}};
    if (shape.type == LH_I64) {
        column->type = LH_COLUMN_I64;
        LH_TRY(lh_h5_get(h5, name, &want, &shape, &c->whole));
    } else if (shape.type == LH_I32) {
        column->type = LH_COLUMN_LABEL;
        LH_TRY(lh_h5_get(h5, name, &want, &shape, &c->codes));
    } else if (shape.type == LH_F32) {
        column->type = LH_COLUMN_F64;
        LH_TRY(lh_h5_get(h5, name, &want, &shape, &c->real));
    } else {
        LH_FAIL(LH_EFILE, "'%s' of '%s' is no column of a table: i64, i32 and f32 are", name, lh_h5_path(h5));
    }
    c->n = shape.dims[0];
    if (c->codes) LH_TRY(read_labels(c, h5, name));
    return LH_OK;
}

static lh_cell cell_of(const stored_column *c, int64_t i)
{
    if (c->whole) return (lh_cell){.number = c->whole[i]};
    if (c->real) return (lh_cell){.value = (double)c->real[i]};
    return (lh_cell){.text = json_string_value(json_array_get(c->texts, (size_t)(c->codes ? c->codes[i] : i)))};
}

/* ---- tables ---- */

typedef struct reading {
    lh_tables *out;
    int text; /* of the present walk: 1 if it visits texts */
} reading;

/* The table of this group, a new one if there is none. */
static lh_status table_named(lh_tables *tables, const char *name, int64_t bytes, lh_stored_table **out)
{
    for (int64_t i = 0; i < tables->count; i++) {
        *out = &tables->list[i];
        if ((int64_t)strlen((*out)->name) == bytes && memcmp((*out)->name, name, (size_t)bytes) == 0) return LH_OK;
    }
    LH_TRY(lh_realloc(&tables->list, tables->count + 1, sizeof *tables->list));
    *out = &tables->list[tables->count];
    **out = (lh_stored_table){0};
    LH_TRY(lh_strndup(&(*out)->name, name, bytes));
    tables->count++;
    return LH_OK;
}

/* Lists an array or text as a column of its group. */
static lh_status list_column(void *self, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    const reading *r = self;
    lh_stored_table *table = NULL;
    char *unit = NULL, *copy = NULL;
    const char *last = strrchr(name, '/');
    int64_t n = 0;
    if (last == name || strncmp(name, "/figures/", 9) == 0) goto done;
    LH_TRY_DONE(lh_h5_get_string(h5, name, "unit", &unit));
    if (!unit) goto done;
    LH_TRY_DONE(table_named(r->out, name + 1, last - name - 1, &table));
    while (table->columns && table->columns[n].name) n++;
    LH_TRY_DONE(lh_realloc(&table->columns, n + 2, sizeof *table->columns));
    table->columns[n] = table->columns[n + 1] = (lh_column){0};
    LH_TRY_DONE(lh_strdup(&copy, last + 1));
    table->columns[n] = (lh_column){copy, unit, r->text ? LH_COLUMN_TEXT : LH_COLUMN_F64};
    unit = NULL;
done:
    lh_free(unit);
    return st;
}

/* Columns in the order of the attribute `columns`; those that it does not name come last. */
static lh_status order_columns(lh_stored_table *table, lh_h5 *h5)
{
    lh_status st = LH_OK;
    char *group = NULL, *text = NULL;
    json_t *order = NULL;
    int64_t at = 0;
    LH_TRY_DONE(lh_asprintf(&group, "/%s", table->name));
    LH_TRY_DONE(lh_h5_get_string(h5, group, "columns", &text));
    order = text ? json_loads(text, 0, NULL) : NULL;
    for (size_t i = 0; i < json_array_size(order); i++) {
        const char *name = json_string_value(json_array_get(order, i));
        for (int64_t c = at; name && table->columns[c].name; c++) {
            if (strcmp(table->columns[c].name, name) != 0) continue;
            const lh_column found = table->columns[c];
            for (; c > at; c--) table->columns[c] = table->columns[c - 1];
            table->columns[at++] = found;
            break;
        }
    }
done:
    json_decref(order);
    lh_free(group);
    lh_free(text);
    return st;
}

static lh_status fill_table(lh_stored_table *table, const stored_column *columns, const lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_cell *row = NULL;
    lh_table_init(&table->table, table->columns);
    LH_TRY_DONE(lh_calloc(&row, table->table.width, sizeof *row));
    for (int64_t c = 1; c < table->table.width; c++)
        if (columns[c].n != columns[0].n)
            LH_FAIL_DONE(LH_EFILE, "table '%s' of '%s': column '%s' has %lld rows, '%s' has %lld", table->name,
                         lh_h5_path(h5), table->columns[c].name, (long long)columns[c].n, table->columns[0].name,
                         (long long)columns[0].n);
    for (int64_t i = 0; i < columns[0].n; i++) {
        for (int64_t c = 0; c < table->table.width; c++) row[c] = cell_of(&columns[c], i);
        LH_TRY_DONE(lh_table_add(&table->table, row));
    }
done:
    lh_free(row);
    return st;
}

static lh_status read_table(lh_stored_table *table, lh_h5 *h5)
{
    lh_status st = LH_OK;
    stored_column *columns = NULL;
    char *name = NULL;
    int64_t width = 0;
    LH_TRY_DONE(order_columns(table, h5));
    while (table->columns[width].name) width++;
    LH_TRY_DONE(lh_calloc(&columns, width, sizeof *columns));
    for (int64_t c = 0; c < width; c++) {
        lh_column *column = &table->columns[c];
        lh_free(name);
        name = NULL;
        LH_TRY_DONE(lh_asprintf(&name, "/%s/%s", table->name, column->name));
        if (column->type == LH_COLUMN_TEXT)
            LH_TRY_DONE(read_text_column(&columns[c], column, h5, name));
        else
            LH_TRY_DONE(read_number_column(&columns[c], column, h5, name));
    }
    LH_TRY_DONE(fill_table(table, columns, h5));
done:
    for (int64_t c = 0; columns && c < width; c++) clear_column(&columns[c]);
    lh_free(columns);
    lh_free(name);
    return st;
}

lh_status lh_tables_read(lh_tables *out, lh_h5 *h5)
{
    lh_status st = LH_OK;
    reading r = {.out = out};
    *out = (lh_tables){0};
    LH_TRY_DONE(lh_h5_each_array(h5, list_column, &r));
    r.text = 1;
    LH_TRY_DONE(lh_h5_each_text(h5, list_column, &r));
    for (int64_t i = 0; i < out->count; i++) LH_TRY_DONE(read_table(&out->list[i], h5));
done:
    if (st != LH_OK) lh_tables_clear(out);
    return st;
}
