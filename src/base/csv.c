#include "base/csv.h"

#include <string.h>

#include "base/minmax.h"

void lh_csv_open(lh_csv *csv, const char *name, const void *text, int64_t bytes)
{
    const int64_t mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    *csv = (lh_csv){.name = name, .at = (const char *)text + mark, .end = (const char *)text + bytes, .line = 1};
}

static lh_status begin_field(lh_csv_row *row)
{
    if (row->n + 1 >= row->cap) {
        row->cap = lh_max_i64(16, 2 * row->cap);
        LH_TRY(lh_realloc(&row->starts, row->cap, sizeof *row->starts));
    }
    row->starts[row->n++] = row->text.bytes;
    return LH_OK;
}

static lh_status end_field(lh_csv_row *row)
{
    LH_TRY(lh_buf_append(&row->text, "", 1));
    row->starts[row->n] = row->text.bytes;
    return LH_OK;
}

/* From the opening quote to after the closing one. */
static lh_status read_quoted(lh_csv *csv, lh_csv_row *row)
{
    const int64_t line = csv->line;
    csv->at++;
    for (;;) {
        const char *quote = csv->at < csv->end ? memchr(csv->at, '"', (size_t)(csv->end - csv->at)) : NULL;
        if (!quote) LH_FAIL(LH_EINPUT, "%s: the quotes that begin in line %lld do not end", csv->name, (long long)line);
        for (const char *c = csv->at; c < quote; c++) csv->line += *c == '\n';
        LH_TRY(lh_buf_append(&row->text, csv->at, quote - csv->at));
        csv->at = quote + 1;
        if (csv->at == csv->end || *csv->at != '"') return LH_OK;
        LH_TRY(lh_buf_append(&row->text, csv->at++, 1));
    }
}

static lh_status read_plain(lh_csv *csv, lh_csv_row *row)
{
    const char *from = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n') csv->at++;
    int64_t bytes = csv->at - from;
    if (bytes > 0 && from[bytes - 1] == '\r' && (csv->at == csv->end || *csv->at == '\n')) bytes--;
    return lh_buf_append(&row->text, from, bytes);
}

/* True at the end of a line or of the text; skips the line end. */
static int pass_end(lh_csv *csv)
{
    if (csv->at == csv->end) return 1;
    const int64_t left = csv->end - csv->at;
    const int64_t bytes = *csv->at == '\n' ? 1 : left >= 2 && memcmp(csv->at, "\r\n", 2) == 0 ? 2 : 0;
    csv->at += bytes;
    csv->line += bytes > 0;
    return bytes > 0;
}

lh_status lh_csv_next(lh_csv *csv, lh_csv_row *row)
{
    row->n = 0;
    row->text.bytes = 0;
    while (csv->at < csv->end && pass_end(csv)) {
    }
    row->line = csv->line;
    if (csv->at == csv->end) return LH_OK;
    for (;;) {
        LH_TRY(begin_field(row));
        const int quoted = csv->at < csv->end && *csv->at == '"';
        LH_TRY(quoted ? read_quoted(csv, row) : read_plain(csv, row));
        LH_TRY(end_field(row));
        if (pass_end(csv)) return LH_OK;
        if (*csv->at != ',')
            LH_FAIL(LH_EINPUT, "%s: line %lld has text after closing quotes; within quotes a quote is written twice",
                    csv->name, (long long)csv->line);
        csv->at++;
    }
}

const char *lh_csv_field(const lh_csv_row *row, int64_t i)
{
    return row->text.data + row->starts[i];
}

int64_t lh_csv_bytes(const lh_csv_row *row, int64_t i)
{
    return row->starts[i + 1] - row->starts[i] - 1;
}

void lh_csv_row_clear(lh_csv_row *row)
{
    lh_buf_clear(&row->text);
    lh_free(row->starts);
    *row = (lh_csv_row){.n = 0};
}
