/* csv.c - figures in long form, a row for each value with the names of its points, and tables as they are. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/table.h"
#include "lab/report/report_impl.h"

enum { ROWS = 4096 };

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

/* A figure may have millions of values: few rows at a time become text. */
static lh_status figure_text(const lh_figure *f, lh_buf *out)
{
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

typedef struct writing {
    const lh_report *report;
    const char *folder;
    json_t *taken; /* names of the files that were written, as members */
} writing;

/* The name of a file, without ".csv": SOURCE-NAME, or NAME alone if there is one source. What is no letter, digit, '.'
 * or '_' becomes '-', and a name that is taken gets a number. */
static lh_status name_file(const writing *w, const lh_report_source *source, const char *name, char **out)
{
    lh_status st = LH_OK;
    const int many = w->report->source_count > 1;
    char *base = NULL;
    LH_TRY_DONE(lh_asprintf(&base, "%s%s%s", many ? source->name : "", many ? "-" : "", name));
    for (char *c = base; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._", *c)) *c = '-';
    LH_TRY_DONE(lh_name_apart(w->taken, base, out));
done:
    lh_free(base);
    return st;
}

static lh_status write_csv(const writing *w, const lh_report_source *source, const char *name, const lh_buf *text)
{
    lh_status st = LH_OK;
    char *file = NULL, *path = NULL;
    LH_TRY_DONE(name_file(w, source, name, &file));
    LH_TRY_DONE(lh_asprintf(&path, "%s/%s.csv", w->folder, file));
    LH_TRY_DONE(lh_file_write(path, text->data, text->bytes));
done:
    lh_free(file);
    lh_free(path);
    return st;
}

static lh_status write_figure(const writing *w, const lh_sheet *sheet)
{
    lh_buf text = {0};
    lh_status st = figure_text(sheet->figure, &text);
    if (st == LH_OK) st = write_csv(w, sheet->source, sheet->figure->name, &text);
    lh_buf_clear(&text);
    return st;
}

static lh_status write_table(const writing *w, const lh_report_source *source, const lh_stored_table *table)
{
    lh_buf text = {0};
    lh_status st = lh_table_csv(&table->table, &text);
    if (st == LH_OK) st = write_csv(w, source, table->name, &text);
    lh_buf_clear(&text);
    return st;
}

lh_status lh_report_csv(const lh_report *report, const char *folder)
{
    lh_status st = LH_OK;
    const writing w = {report, folder, json_object()};
    if (mkdir(folder, 0777) != 0 && !lh_file_is_folder(folder))
        LH_FAIL_DONE(LH_EWRITE, "cannot make the folder '%s' of '--csv': %s", folder, strerror(errno));
    for (int64_t i = 0; i < report->sheet_count; i++) LH_TRY_DONE(write_figure(&w, &report->sheets[i]));
    for (int64_t s = 0; s < report->source_count; s++) {
        const lh_tables *tables = &report->sources[s].tables;
        for (int64_t i = 0; i < tables->count; i++) LH_TRY_DONE(write_table(&w, &report->sources[s], &tables->list[i]));
    }
done:
    json_decref(w.taken);
    return st;
}
