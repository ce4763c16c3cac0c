/* resume.c - writes and reads the file of resume.h, and checks that it belongs to this evaluation. */
#include "lab/eval/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/destination.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/journal.h"
#include "base/json.h"
#include "base/log.h"
#include "base/minmax.h"

/* SYNC_S: seconds between two waits for the disk. */
enum { TABLES_MAX = 4, DIGITS = 17, SYNC_S = 5 };
static const int64_t FILE_BYTES = INT64_C(1) << 34;
static const char BEGINNING[] = "{\"longhaul\":\"unfinished evaluation\",";

struct lh_resume {
    lh_journal journal;
    json_t *header;  /* of this run, the first line */
    json_t *first;   /* of the file; NULL: it was empty */
    json_t *prompts; /* rows of the finished prompts, until lh_resume_begin adds them to the tables */
    int64_t n;
    int64_t seen[TABLES_MAX]; /* rows of the tables that the file holds */
    double synced_s;
    int failed;
};

/* ---- rows as JSON ---- */

static json_t *cell_json(const lh_column *column, const lh_cell *cell)
{
    if (lh_column_is_text(column)) return lh_json_text(cell->text, (int64_t)strlen(cell->text));
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
    if (lh_column_is_text(column)) out->text = json_string_value(value);
    if (column->type == LH_COLUMN_I64) out->number = json_integer_value(value);
    if (column->type == LH_COLUMN_F64) out->value = json_is_null(value) ? (double)NAN : json_number_value(value);
    if (lh_column_is_text(column)) return json_is_string(value);
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
                         resume->journal.path);
        LH_TRY_DONE(lh_table_add(table, cells));
    }
done:
    lh_free(cells);
    return st;
}

/* ---- another evaluation ---- */

/* How a message names a member of the identity. */
static const struct {
    const char *member, *says;
} members[] = {{"task", "the task"},
               {"version", "the version of the program"},
               {"model", "the model"},
               {"data", "the data"},
               {"policies", "the list of policies"},
               {"dtype", "the type of the weights"},
               {"kv_dtype", "the type of the full cache"},
               {"evicted_kv_dtype", "the type of caches that evict"}};

static lh_status check_identity(const lh_resume *resume, const json_t *was)
{
    lh_identity_difference d;
    if (!lh_identity_differs(was, json_object_get(resume->header, "identity"), DIGITS, &d)) return LH_OK;
    const int is_option = strncmp(d.name, "options.", strlen("options.")) == 0;
    const char *says = is_option ? d.name + strlen("options.") : d.name;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(members[i].member, d.name) == 0) says = members[i].says;
    LH_FAIL(
        LH_EUSAGE,
        "'%s' holds %lld finished prompts of another evaluation: %s%s%s was %s and is %s; delete that file to begin "
        "again, or name another output",
        resume->journal.path, (long long)resume->n, is_option ? "'--" : "", says, is_option ? "'" : "", d.was, d.is);
}

/* ---- the file ---- */

static lh_status fail_foreign(const lh_resume *resume)
{
    LH_FAIL(LH_EWRITE, "cannot write '%s': it is not the file of an unfinished evaluation, move it away",
            resume->journal.path);
}

/* The first line identifies the evaluation, each further line is a finished prompt. */
static lh_status read_line(void *self, const char *text, int64_t bytes, int *accepted)
{
    lh_resume *resume = self;
    json_t *line = json_loadb(text, (size_t)bytes, 0, NULL);
    if (!resume->first) {
        resume->first = line;
        *accepted = line != NULL;
        return line ? LH_OK : fail_foreign(resume);
    }
    const json_t *number = json_object_get(line, "prompt");
    json_t *rows = json_object_get(line, "rows");
    *accepted = json_is_integer(number) && json_integer_value(number) == resume->n && json_is_array(rows);
    if (*accepted) {
        json_array_append(resume->prompts, rows);
        resume->n++;
    }
    json_decref(line);
    return LH_OK;
}

/* Reads the finished prompts, and cuts off a line that a kill tore. */
static lh_status read_file(lh_resume *resume)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t whole = 0;
    const lh_journal_reader reader = {resume, read_line};
    LH_TRY_DONE(lh_file_read_regular(&text, resume->journal.path, FILE_BYTES));
    if (text.bytes && memcmp(text.data, BEGINNING, (size_t)lh_min_i64(text.bytes, (int64_t)sizeof BEGINNING - 1)) != 0)
        LH_TRY_DONE(fail_foreign(resume));
    LH_TRY_DONE(lh_journal_read_lines(&reader, text.data, text.bytes, &whole));
    if (resume->first) LH_TRY_DONE(check_identity(resume, json_object_get(resume->first, "identity")));
    if (whole < text.bytes) LH_TRY_DONE(lh_journal_cut(&resume->journal, whole));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_resume_open(lh_resume **out, const char *output, const json_t *identity)
{
    lh_status st = LH_OK;
    lh_resume *resume = NULL;
    char *target = NULL, *path = NULL;
    int stream = 0, locked;
    LH_TRY_DONE(lh_calloc(&resume, 1, sizeof *resume));
    resume->journal.fd = -1;
    resume->prompts = json_array();
    resume->header =
        json_pack("{s:s, s:i, s:O}", "longhaul", "unfinished evaluation", "schema", 1, "identity", identity);
    if (!resume->prompts || !resume->header) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    LH_TRY_DONE(lh_destination_find(&target, &stream, output));
    LH_TRY_DONE(lh_asprintf(&path, "%s.resume", target));
    LH_TRY_DONE(lh_journal_open(&resume->journal, path));
    /* on a file system without locks the claim of the output has to do */
    LH_TRY_DONE(lh_journal_lock(&resume->journal, "another evaluation that is running", &locked));
    LH_TRY_DONE(read_file(resume));
    *out = resume;
    resume = NULL;
done:
    lh_resume_close(resume);
    lh_free(path);
    lh_free(target);
    return st;
}

void lh_resume_close(lh_resume *resume)
{
    if (!resume) return;
    lh_journal_remove_empty(&resume->journal);
    lh_journal_close(&resume->journal);
    json_decref(resume->header);
    json_decref(resume->first);
    json_decref(resume->prompts);
    lh_free(resume);
}

void lh_resume_remove(lh_resume *resume)
{
    if (!resume) return;
    lh_journal_remove(&resume->journal);
    lh_journal_close(&resume->journal);
}

const char *lh_resume_path(const lh_resume *resume)
{
    return resume->journal.path;
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
                    resume->journal.path, i, json_array_size(rows), n);
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
    char *json = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(DIGITS));
    if (!json) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    LH_TRY_DONE(lh_buf_printf(&text, "%s\n", json));
    LH_TRY_DONE(lh_journal_append(&resume->journal, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    free(json);
    return st;
}

static lh_status append_prompt(lh_resume *resume, lh_table *const *tables)
{
    lh_status st = LH_OK;
    json_t *rows = json_array(), *line = NULL;
    for (int t = 0; tables[t]; t++) json_array_append_new(rows, rows_json(tables[t], resume->seen[t]));
    line = json_pack("{s:I, s:O}", "prompt", (json_int_t)resume->n, "rows", rows);
    if (!line) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for finished prompts");
    if (resume->journal.bytes == 0) LH_TRY_DONE(write_line(resume, resume->header));
    LH_TRY_DONE(write_line(resume, line));
    if (lh_clock_s() - resume->synced_s >= SYNC_S) {
        LH_TRY_DONE(lh_journal_sync(&resume->journal));
        resume->synced_s = lh_clock_s();
    }
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
