/* documents.c - reads documents one after another, and writes the line of each. */
#include "batch/documents.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "base/unicode.h"
#include "text/text_check.h"

static const int64_t TEXT_BYTES = INT64_C(1) << 30, BUFFER_BYTES = 1 << 20;

/* A value of the current document. */
typedef struct value {
    const char *text;
    int64_t bytes;
} value;

typedef struct documents {
    const lh_batch_documents *options;
    lh_csv_row names; /* of the columns */
    lh_paths files;   /* of a folder */
    lh_buf text;      /* of the file */
    lh_map map;       /* of a table */
    lh_csv csv;
    lh_csv_row row;
    int64_t read;      /* documents so far */
    lh_buf id, prompt; /* of the last document */
} documents;

/* ---- documents ---- */

static int is_folder(const documents *d)
{
    return d->files.n > 0;
}

static lh_status open_folder(documents *d)
{
    static const char columns[] = "name,text";
    LH_TRY(lh_text_files(&d->files, d->options->from));
    lh_csv_open(&d->csv, d->options->from, columns, (int64_t)strlen(columns));
    return lh_csv_next(&d->csv, &d->names);
}

/* Columns without a name, as spreadsheets leave them, may repeat: no template can ask for one. */
static lh_status check_names(const documents *d)
{
    for (int64_t c = 0; c < d->names.n; c++)
        for (int64_t k = 0; k < c && lh_csv_bytes(&d->names, c); k++)
            if (strcmp(lh_csv_field(&d->names, k), lh_csv_field(&d->names, c)) == 0)
                LH_FAIL(LH_EINPUT, "'%s': the columns %lld and %lld are both called '%s', each needs a name of its own",
                        d->csv.name, (long long)k + 1, (long long)c + 1, lh_csv_field(&d->names, c));
    return LH_OK;
}

/* The first row names the columns. */
static lh_status open_table(documents *d)
{
    LH_TRY(lh_map_open(&d->map, d->options->from));
    LH_TRY(lh_text_check_kind(d->map.path, (const char *)d->map.data, d->map.bytes));
    LH_TRY(lh_text_check_line_ends(d->map.path, (const char *)d->map.data, d->map.bytes));
    lh_csv_open(&d->csv, d->map.path, d->map.data, d->map.bytes);
    LH_TRY(lh_csv_next(&d->csv, &d->names));
    if (d->names.n == 0)
        LH_FAIL(LH_EINPUT, "'%s' is empty: a table begins with the names of its columns", d->options->from);
    return check_names(d);
}

/* The custom_id of a name: the name itself, or "caf\xe9.txt" with an escape for each byte that is not UTF-8, so that
 * different names stay different. */
static lh_status put_id(documents *d, const char *name, int64_t bytes)
{
    uint32_t cp;
    int skip;
    d->id.bytes = 0;
    if (lh_utf8_valid(name, bytes)) return lh_buf_append(&d->id, name, bytes);
    for (int64_t at = 0; at < bytes; at += skip) {
        const int valid = lh_utf8_read(name + at, bytes - at, &cp, &skip);
        if (valid && cp != '\\') {
            LH_TRY(lh_buf_append(&d->id, name + at, skip));
            continue;
        }
        for (int k = 0; k < skip; k++) LH_TRY(lh_buf_printf(&d->id, "\\x%02x", (unsigned char)name[at + k]));
    }
    return LH_OK;
}

static lh_status next_file(documents *d, int *more)
{
    *more = d->read < d->files.n;
    if (!*more) return LH_OK;
    const char *path = d->files.at[d->read];
    d->text.bytes = 0;
    LH_TRY(lh_file_read_regular(&d->text, path, TEXT_BYTES));
    LH_TRY(lh_buf_append(&d->text, "", 1)); /* an empty file has a text, too */
    d->text.bytes--;
    lh_text_drop_mark(&d->text, 0);
    LH_TRY(lh_text_check_kind(path, d->text.data, d->text.bytes));
    path = lh_path_name(path);
    return put_id(d, path, (int64_t)strlen(path));
}

static int64_t column_of(const documents *d, const char *name, int64_t bytes)
{
    for (int64_t c = 0; c < d->names.n; c++)
        if (lh_csv_bytes(&d->names, c) == bytes && memcmp(lh_csv_field(&d->names, c), name, (size_t)bytes) == 0)
            return c;
    return -1;
}

static lh_status name_row(documents *d)
{
    static const char *const names[] = {"custom_id", "id"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t c = column_of(d, names[i], (int64_t)strlen(names[i]));
        if (c >= 0 && lh_csv_bytes(&d->row, c) > 0)
            return put_id(d, lh_csv_field(&d->row, c), lh_csv_bytes(&d->row, c));
    }
    return lh_buf_printf(&d->id, "row-%lld", (long long)d->read + 1);
}

static lh_status next_row(documents *d, int *more)
{
    LH_TRY(lh_csv_next(&d->csv, &d->row));
    *more = d->row.n > 0;
    if (!*more) return LH_OK;
    if (d->row.n != d->names.n)
        LH_FAIL(LH_EINPUT, "%s: the row in line %lld has %lld fields, and there are %lld columns", d->csv.name,
                (long long)d->row.line, (long long)d->row.n, (long long)d->names.n);
    d->id.bytes = 0;
    return name_row(d);
}

static lh_status next_document(documents *d, int *more)
{
    LH_TRY(is_folder(d) ? next_file(d, more) : next_row(d, more));
    d->read += *more;
    return LH_OK;
}

static value value_of(const documents *d, int64_t column)
{
    if (!is_folder(d)) return (value){lh_csv_field(&d->row, column), lh_csv_bytes(&d->row, column)};
    const lh_buf *b = column == 0 ? &d->id : &d->text;
    return (value){b->data, b->bytes};
}

/* ---- the template ---- */

/* LH_EUSAGE, naming the columns. */
static lh_status fail_template(const documents *d, const char *what)
{
    lh_status st = LH_OK;
    lh_buf columns = {0};
    for (int64_t c = 0; c < d->names.n; c++)
        LH_TRY_DONE(lh_buf_printf(&columns, "%s'{%s}'", c == 0 ? "" : ", ", lh_csv_field(&d->names, c)));
    LH_FAIL_DONE(LH_EUSAGE, "'--template' %s: of '%s' it can have %s; braces of its own are written twice", what,
                 d->options->from, columns.data);
done:
    lh_buf_clear(&columns);
    return st;
}

/* Appends the value of a column of the template. *at: its opening brace, then the text after its closing brace. */
static lh_status append_column(documents *d, const char **at)
{
    const char *name = *at + 1, *end = strchr(name, '}');
    const int64_t column = end ? column_of(d, name, end - name) : -1;
    if (!end) return fail_template(d, "has a '{' without its '}'");
    if (column < 0) return fail_template(d, "names a column that is not there");
    const value v = value_of(d, column);
    *at = end + 1;
    return lh_buf_append(&d->prompt, v.text, v.bytes);
}

static lh_status render(documents *d)
{
    int64_t columns = 0;
    d->prompt.bytes = 0;
    LH_TRY(lh_buf_puts(&d->prompt, ""));
    for (const char *at = d->options->text; *at;) {
        if (*at == '{' && at[1] != '{') {
            LH_TRY(append_column(d, &at));
            columns++;
            continue;
        }
        if (*at == '}' && at[1] != '}') return fail_template(d, "has a '}' without its '{'");
        LH_TRY(lh_buf_append(&d->prompt, at, 1));
        at += *at == '{' || *at == '}' ? 2 : 1;
    }
    return columns ? LH_OK : fail_template(d, "has nothing of the document");
}

/* ---- lines ---- */

static void warn_of_bytes(const documents *d)
{
    for (int64_t c = 0; c < d->names.n; c++) {
        const value v = value_of(d, c);
        if (!lh_utf8_valid(v.text, v.bytes))
            lh_warn("'%s' of '%s' is not UTF-8: the model sees U+FFFD in place of what is none; if it is Latin-1, "
                    "'iconv -f latin1 -t utf-8' converts it",
                    d->id.data, d->options->from);
    }
}

static lh_status append_line(const documents *d, lh_buf *out)
{
    lh_status st = LH_OK;
    char *line = NULL;
    json_t *id = lh_json_text(d->id.data, d->id.bytes), *prompt = lh_json_text(d->prompt.data, d->prompt.bytes);
    json_t *body = d->options->chat ? json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content", prompt)
                                    : json_pack("{s:o, s:b}", "prompt", prompt, "split_special_tokens", 1);
    json_t *object = json_pack("{s:o, s:s, s:s, s:o}", "custom_id", id, "method", "POST", "url",
                               d->options->chat ? "/v1/chat/completions" : "/v1/completions", "body", body);
    if (object) line = json_dumps(object, JSON_COMPACT);
    if (!line) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the request of '%s'", d->id.data);
    LH_TRY_DONE(lh_buf_puts(out, line));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
done:
    json_decref(object);
    free(line);
    return st;
}

static lh_status write_lines(documents *d, lh_journal *file)
{
    lh_status st = LH_OK;
    int more = 1;
    lh_buf lines = {0};
    for (;;) {
        LH_TRY_DONE(next_document(d, &more));
        if (!more) break;
        warn_of_bytes(d);
        LH_TRY_DONE(render(d));
        LH_TRY_DONE(append_line(d, &lines));
        if (lines.bytes < BUFFER_BYTES) continue;
        LH_TRY_DONE(lh_journal_append(file, lines.data, lines.bytes));
        lines.bytes = 0;
    }
    if (d->read == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' has the names of columns, and no row", d->options->from);
    if (lines.bytes) LH_TRY_DONE(lh_journal_append(file, lines.data, lines.bytes));
done:
    lh_buf_clear(&lines);
    return st;
}

static void close_documents(documents *d)
{
    lh_csv_row_clear(&d->names);
    lh_csv_row_clear(&d->row);
    lh_paths_clear(&d->files);
    lh_map_close(&d->map);
    lh_buf_clear(&d->text);
    lh_buf_clear(&d->id);
    lh_buf_clear(&d->prompt);
}

lh_status lh_batch_documents_write(const lh_batch_documents *options, const char *path)
{
    lh_status st = LH_OK;
    documents d = {.options = options};
    lh_journal file = {.fd = -1};
    char *partial = NULL;
    LH_TRY_DONE(lh_file_is_folder(options->from) ? open_folder(&d) : open_table(&d));
    LH_TRY_DONE(lh_partial_open(&partial, path));
    LH_TRY_DONE(lh_journal_open(&file, partial));
    LH_TRY_DONE(write_lines(&d, &file));
    if (d.map.path) LH_TRY_DONE(lh_map_unchanged(&d.map));
    LH_TRY_DONE(lh_partial_commit(path));
done:
    lh_journal_close(&file);
    if (st != LH_OK && partial) lh_partial_drop(path);
    lh_free(partial);
    close_documents(&d);
    return st;
}
