/* resume.c - writes and reads the file of resume.h, and finds what differs between two evaluations. */
#include "lab/eval/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/minmax.h"

enum { TABLES_MAX = 4 };
static const int64_t FILE_BYTES = INT64_C(1) << 34;
static const char BEGINNING[] = "{\"longhaul\":\"unfinished evaluation\",";

struct lh_resume {
    char *path;
    json_t *header;
    json_t *prompts; /* those that were read, until lh_resume_begin has taken them */
    int64_t n;
    int64_t good_bytes;       /* of the file: whole lines */
    int64_t seen[TABLES_MAX]; /* rows of the tables that the file holds */
    int fd;                   /* locked for this process; -1: closed */
    int begun;                /* what follows good_bytes was cut off, and the first line is there */
    int failed;
};

/* ---- rows as JSON ---- */

static int is_text(const lh_column *column)
{
    return column->type == LH_COLUMN_TEXT || column->type == LH_COLUMN_LABEL;
}

static json_t *cell_json(const lh_column *column, const lh_cell *cell)
{
    if (is_text(column)) return lh_json_text(cell->text, (int64_t)strlen(cell->text));
    if (column->type == LH_COLUMN_I64) return json_integer(cell->number);
    return isfinite(cell->value) ? json_real(cell->value) : json_null();
}

static json_t *rows_json(const lh_table *table, int64_t from)
{
    json_t *rows = json_array();
    for (int64_t i = from; i < table->n; i++) {
        json_t *row = json_array();
        for (int64_t c = 0; c < table->width; c++)
            json_array_append_new(row, cell_json(&table->columns[c], &lh_table_row(table, i)[c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* 1 if the value was of the column's type. */
static int read_cell(lh_cell *out, const lh_column *column, const json_t *value)
{
    if (is_text(column)) out->text = json_string_value(value);
    if (column->type == LH_COLUMN_I64) out->number = json_integer_value(value);
    if (column->type == LH_COLUMN_F64) out->value = json_is_null(value) ? (double)NAN : json_number_value(value);
    if (is_text(column)) return json_is_string(value);
    return column->type == LH_COLUMN_I64 ? json_is_integer(value) : json_is_null(value) || json_is_number(value);
}

static lh_status add_rows(const lh_resume *resume, lh_table *table, const json_t *rows)
{
    lh_status st = LH_OK;
    lh_cell *cells = NULL;
    size_t i;
    json_t *row;
    LH_TRY_DONE(lh_calloc(&cells, table->width, sizeof *cells));
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        int fits = json_array_size(row) == (size_t)table->width;
        for (int64_t c = 0; fits && c < table->width; c++)
            fits = read_cell(&cells[c], &table->columns[c], json_array_get(row, (size_t)c));
        if (!fits)
            LH_FAIL_DONE(LH_EWRITE, "'%s' is damaged: a row has other columns than the table. Delete it to begin again",
                         resume->path);
        LH_TRY_DONE(lh_table_add(table, cells));
    }
done:
    lh_free(cells);
    return st;
}

/* ---- what differs ---- */

/* What a member of the identity is in a message. */
static const struct {
    const char *member, *says;
} members[] = {{"version", "the version of the program"},
               {"model", "the model"},
               {"data", "the data"},
               {"policies", "the list of policies"},
               {"dtype", "the type of the weights"},
               {"kv_dtype", "the type of the cache"}};

static int is_same(const json_t *a, const json_t *b)
{
    return a == b || (a && b && json_equal(a, b));
}

static lh_status fail_differs(const lh_resume *resume, const char *what, const json_t *was, const json_t *is)
{
    lh_status st = LH_OK;
    char *old = json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT), *now = json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT);
    LH_FAIL_DONE(
        LH_EUSAGE,
        "'%s' holds %lld finished prompts of another evaluation: %s was %.60s and is %.60s; delete that file to "
        "begin again, or name another output",
        resume->path, (long long)resume->n, what, old ? old : "none", now ? now : "none");
done:
    free(old);
    free(now);
    return st;
}

/* LH_EUSAGE naming the first option that has another value; `was` has members that `is` lacks, or the reverse. */
static lh_status compare_options(const lh_resume *resume, const json_t *was, const json_t *is)
{
    lh_status st = LH_OK;
    const char *name;
    json_t *value;
    lh_buf what = {0};
    const json_t *sides[2] = {is, was};
    for (int i = 0; i < 2; i++) json_object_foreach((json_t *)(uintptr_t)sides[i], name, value)
        {
            const json_t *old = json_object_get(was, name), *now = json_object_get(is, name);
            if (is_same(old, now)) continue;
            LH_TRY_DONE(lh_buf_printf(&what, "'--%s'", name));
            LH_TRY_DONE(fail_differs(resume, what.data, old, now));
        }
done:
    lh_buf_clear(&what);
    return st;
}

static lh_status compare_identity(const lh_resume *resume, const json_t *was)
{
    const json_t *is = json_object_get(resume->header, "identity");
    if (!is_same(json_object_get(was, "task"), json_object_get(is, "task")))
        LH_TRY(fail_differs(resume, "the task", json_object_get(was, "task"), json_object_get(is, "task")));
    LH_TRY(compare_options(resume, json_object_get(was, "options"), json_object_get(is, "options")));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *old = json_object_get(was, members[i].member), *now = json_object_get(is, members[i].member);
        if (!is_same(old, now)) LH_TRY(fail_differs(resume, members[i].says, old, now));
    }
    return LH_OK;
}

/* ---- the file ---- */

/* Reads whole lines up to the first that is not one of this file, which a kill cut off. */
static lh_status read_lines(lh_resume *resume, const lh_buf *text)
{
    lh_status st = LH_OK;
    json_t *first = NULL;
    const char *at = text->data ? text->data : "", *end = strchr(at, '\n');
    if (end) first = json_loadb(at, (size_t)(end - at), 0, NULL);
    if (strncmp(at, BEGINNING, (size_t)lh_min_i64(text->bytes, (int64_t)strlen(BEGINNING))) != 0 || (end && !first))
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': it is not the file of an unfinished evaluation, move it away",
                     resume->path);
    if (!first) goto done; /* empty, or cut off within the first line */
    for (at = end + 1; (end = strchr(at, '\n')); at = end + 1) {
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        const json_t *number = json_object_get(line, "prompt");
        json_t *rows = json_object_get(line, "rows");
        const int next = json_is_integer(number) && json_integer_value(number) == resume->n && json_is_array(rows);
        if (next) json_array_append(resume->prompts, rows);
        json_decref(line);
        if (!next) break;
        resume->n++;
    }
    resume->good_bytes = at - text->data;
    LH_TRY_DONE(compare_identity(resume, json_object_get(first, "identity")));
done:
    json_decref(first);
    return st;
}

/* 1 if the file was removed between its opening and the lock, by a run that ended. */
static int is_gone(const lh_resume *resume)
{
    struct stat locked, named;
    return fstat(resume->fd, &locked) == 0 && (stat(resume->path, &named) != 0 || locked.st_ino != named.st_ino);
}

/* Creates the file if it is not there, empty until a prompt is finished, and locks it. Where the file system has no
 * locks, the claim of the output has to do. */
static lh_status lock_file(lh_resume *resume)
{
    do {
        if (resume->fd >= 0) close(resume->fd);
        resume->fd = open(resume->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (resume->fd < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", resume->path, strerror(errno));
        if (flock(resume->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) continue;
        close(resume->fd);
        resume->fd = -1;
        LH_FAIL(LH_EWRITE, "cannot write '%s': another evaluation that is running writes it: name another output",
                resume->path);
    } while (is_gone(resume));
    return LH_OK;
}

lh_status lh_resume_open(lh_resume **out, const char *output, const json_t *identity)
{
    lh_status st = LH_OK;
    lh_resume *resume = NULL;
    char *target = NULL;
    lh_buf text = {0};
    int stream = 0;
    LH_TRY_DONE(lh_calloc(&resume, 1, sizeof *resume));
    resume->fd = -1;
    resume->prompts = json_array();
    resume->header =
        json_pack("{s:s, s:i, s:O}", "longhaul", "unfinished evaluation", "schema", 1, "identity", identity);
    if (!resume->prompts || !resume->header) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    LH_TRY_DONE(lh_destination_find(&target, &stream, output));
    LH_TRY_DONE(lh_asprintf(&resume->path, "%s.resume", target));
    LH_TRY_DONE(lock_file(resume));
    LH_TRY_DONE(lh_file_read_regular(&text, resume->path, FILE_BYTES));
    LH_TRY_DONE(read_lines(resume, &text));
    *out = resume;
    resume = NULL;
done:
    lh_resume_close(resume);
    lh_buf_clear(&text);
    lh_free(target);
    return st;
}

void lh_resume_close(lh_resume *resume)
{
    struct stat info;
    if (!resume) return;
    if (resume->fd >= 0 && fstat(resume->fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        unlink(resume->path); /* nothing is kept */
    if (resume->fd >= 0) close(resume->fd);
    json_decref(resume->header);
    json_decref(resume->prompts);
    lh_free(resume->path);
    lh_free(resume);
}

void lh_resume_remove(lh_resume *resume)
{
    if (!resume || resume->fd < 0) return;
    unlink(resume->path);
    close(resume->fd);
    resume->fd = -1;
}

const char *lh_resume_path(const lh_resume *resume)
{
    return resume->path;
}

int64_t lh_resume_finished(const lh_resume *resume)
{
    return resume ? resume->n : 0;
}

static lh_status take_prompts(lh_resume *resume, lh_table *const *tables)
{
    size_t i;
    json_t *rows;
    size_t n = 0;
    while (tables[n]) n++;
    json_array_foreach(resume->prompts, i, rows)
    {
        if (json_array_size(rows) != n)
            LH_FAIL(LH_EWRITE, "'%s' is damaged: prompt %zu has rows of %zu tables, not %zu. Delete it to begin again",
                    resume->path, i, json_array_size(rows), n);
        for (int t = 0; tables[t]; t++) LH_TRY(add_rows(resume, tables[t], json_array_get(rows, (size_t)t)));
    }
    json_array_clear(resume->prompts);
    for (int t = 0; tables[t]; t++) resume->seen[t] = tables[t]->n;
    return LH_OK;
}

lh_status lh_resume_begin(lh_resume *resume, lh_comm *comm, lh_table *const *tables, int64_t *finished)
{
    *finished = lh_resume_finished(resume);
    LH_TRY(lh_comm_agree(comm, resume ? take_prompts(resume, tables) : LH_OK));
    return lh_comm_bcast(comm, 0, finished, sizeof *finished);
}

/* ---- appending ---- */

static lh_status write_line(lh_resume *resume, const json_t *line)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    char *json = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));
    if (!json) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    LH_TRY_DONE(lh_buf_printf(&text, "%s\n", json));
    for (int64_t at = 0; at < text.bytes;) {
        ssize_t n = write(resume->fd, text.data + at, (size_t)(text.bytes - at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", resume->path, strerror(errno));
        at += n;
    }
done:
    lh_buf_clear(&text);
    free(json);
    return st;
}

static lh_status begin_file(lh_resume *resume)
{
    if (resume->begun) return LH_OK;
    if (ftruncate(resume->fd, (off_t)resume->good_bytes) != 0 || lseek(resume->fd, 0, SEEK_END) < 0)
        LH_FAIL(LH_EWRITE, "cannot write '%s': %s", resume->path, strerror(errno));
    resume->begun = 1;
    return resume->good_bytes ? LH_OK : write_line(resume, resume->header);
}

static lh_status append_prompt(lh_resume *resume, lh_table *const *tables)
{
    lh_status st = LH_OK;
    json_t *rows = json_array(), *line = NULL;
    for (int t = 0; tables[t]; t++) json_array_append_new(rows, rows_json(tables[t], resume->seen[t]));
    line = json_pack("{s:I, s:O}", "prompt", (json_int_t)resume->n, "rows", rows);
    if (!line) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    LH_TRY_DONE(begin_file(resume));
    LH_TRY_DONE(write_line(resume, line));
    for (int t = 0; tables[t]; t++) resume->seen[t] = tables[t]->n;
    resume->n++;
done:
    json_decref(rows);
    json_decref(line);
    return st;
}

void lh_resume_add(lh_resume *resume, lh_table *const *tables)
{
    if (!resume || resume->failed) return;
    if (append_prompt(resume, tables) == LH_OK) return;
    resume->failed = 1;
    lh_warn("%s: an interrupted run would go on after %lld prompt%s", lh_error_message(), (long long)resume->n,
            resume->n == 1 ? "" : "s");
    lh_error_clear();
}
