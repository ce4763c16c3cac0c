/* resume.c - reads an output, compares it with the run and the input, and removes the lines of failed requests. */
#include "batch/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/identity.h"
#include "base/journal.h"
#include "base/json.h"
#include "base/minmax.h"
#include "base/output.h"
#include "batch/answer.h"
#include "batch/input.h"
#include "batch/work.h"

/* ---- records ---- */

/* 16 digits of a hexadecimal number. */
static int read_hash(const json_t *value, uint64_t *out)
{
    const char *digits = json_string_value(value);
    if (!digits || strlen(digits) != 16 || strspn(digits, "0123456789abcdefABCDEF") != 16) return 0;
    *out = strtoull(digits, NULL, 16);
    return 1;
}

/* True if the object is a record; sets all members but its place. id: borrowed from the object. */
static int read_record(const json_t *line, lh_batch_record *out, const char **id)
{
    const json_t *error = json_object_get(line, "error"), *response = json_object_get(line, "response");
    const json_t *custom_id = json_object_get(line, "custom_id"), *context = json_object_get(line, "context_hash");
    const json_t *number = json_object_get(line, "line");
    if (!json_object_get(line, "id") || !json_object_get(line, "run")) return 0;
    if (!error || !response || json_is_null(error) == json_is_null(response))
        return 0; /* exactly one of them is null */
    out->failed = !json_is_null(error);
    out->number = json_integer_value(number);
    if (!json_is_integer(number) || out->number < 1 || !read_hash(json_object_get(line, "hash"), &out->hash)) return 0;
    if (context && !read_hash(context, &out->context)) return 0;
    *id = json_string_value(custom_id);
    return json_is_null(custom_id) || (*id && **id && strlen(*id) == json_string_length(custom_id));
}

/* *out: an object equal to `run`, which lines of the same run share. */
static lh_status keep_run(lh_batch_records *r, json_t *run, const json_t **out)
{
    if (r->run_count == 0 || !json_equal(r->runs[r->run_count - 1], run)) {
        LH_TRY(lh_realloc(&r->runs, r->run_count + 1, sizeof *r->runs));
        r->runs[r->run_count++] = json_incref(run);
    }
    *out = r->runs[r->run_count - 1];
    return LH_OK;
}

static lh_status add_record(lh_batch_records *r, lh_batch_record record, const char *id)
{
    if (r->n == r->cap) {
        r->cap = lh_max_i64(1024, 2 * r->cap);
        LH_TRY(lh_realloc(&r->at, r->cap, sizeof *r->at));
    }
    if (id) LH_TRY(lh_strdup(&record.custom_id, id));
    r->at[r->n++] = record;
    r->failed += record.failed;
    return LH_OK;
}

/* True if an interrupted write can have left these bytes: the beginning of a line, or the zeros of a file that grew
 * before its data were on the disk. */
static int is_torn(const char *text, int64_t bytes)
{
    static const char start[] = LH_BATCH_LINE_START;
    const int64_t n = lh_min_i64(bytes, (int64_t)sizeof start - 1);
    int64_t zeros = 0;
    while (zeros < bytes && text[zeros] == '\0') zeros++;
    return zeros == bytes || memcmp(text, start, (size_t)n) == 0;
}

static lh_status read_line(void *self, const char *text, int64_t bytes, int *accepted)
{
    lh_status st = LH_OK;
    lh_batch_records *r = self;
    lh_batch_record record = {.at = text - (const char *)r->map.data, .bytes = bytes + 1};
    const char *id = NULL;
    json_t *line = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL, NULL);
    *accepted = read_record(line, &record, &id);
    if (!*accepted) goto done;
    LH_TRY_DONE(keep_run(r, json_object_get(line, "run"), &record.run));
    LH_TRY_DONE(add_record(r, record, id));
done:
    json_decref(line);
    return st;
}

/* LH_EFILE unless the whole lines are followed by nothing, or by one torn line. */
static lh_status check_end(lh_batch_records *r)
{
    const char *line = (const char *)r->map.data + r->whole_bytes;
    const int64_t left = r->map.bytes - r->whole_bytes;
    const char *feed = left ? memchr(line, '\n', (size_t)left) : NULL;
    const int64_t bytes = feed ? feed + 1 - line : left;
    if (left == 0) return LH_OK;
    if (bytes < left && (r->n > 0 || is_torn(line, bytes)))
        LH_FAIL(
            LH_EFILE,
            "'%s' is damaged: line %lld, at byte %lld, is no line of a batch's output, and others follow it. Delete "
            "that line, and its request is answered again",
            r->map.path, (long long)r->n + 1, (long long)r->whole_bytes);
    if (bytes < left || !is_torn(line, bytes))
        LH_FAIL(LH_EFILE, "'%s' is not the output of a batch: line %lld is none of its lines", r->map.path,
                (long long)r->n + 1);
    r->torn_bytes = bytes;
    return LH_OK;
}

lh_status lh_batch_records_read(lh_batch_records *out, const char *path)
{
    struct stat info;
    *out = (lh_batch_records){.n = 0};
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0) return LH_OK;
    LH_TRY(lh_map_open(&out->map, path));
    LH_TRY(lh_journal_read_lines(&(lh_journal_reader){out, read_line}, (const char *)out->map.data, out->map.bytes,
                                 &out->whole_bytes));
    return check_end(out);
}

void lh_batch_records_clear(lh_batch_records *records)
{
    for (int64_t i = 0; i < records->n; i++) lh_free(records->at[i].custom_id);
    for (int64_t k = 0; k < records->run_count; k++) json_decref(records->runs[k]);
    lh_free(records->runs);
    lh_free(records->at);
    lh_map_close(&records->map);
    *records = (lh_batch_records){.n = 0};
}

lh_status lh_batch_record_error(const lh_batch_records *records, int64_t i, lh_buf *out)
{
    lh_status st = LH_OK;
    json_t *line = NULL;
    const char *code = NULL, *message = NULL;
    const lh_batch_record *r = &records->at[i];
    LH_TRY_DONE(lh_json_parse(&line, records->map.path, records->map.data + r->at, r->bytes));
    const json_t *error = json_object_get(line, "error");
    code = json_string_value(json_object_get(error, "code"));
    message = json_string_value(json_object_get(error, "message"));
    if (!code || !message)
        LH_FAIL_DONE(LH_EFILE, "'%s' is damaged: line %lld has an error without code and message", records->map.path,
                     (long long)i + 1);
    LH_TRY_DONE(lh_buf_printf(out, "%s: %s", code, message));
done:
    json_decref(line);
    return st;
}

/* ---- the run ---- */

/* LH_EUSAGE if a line was written by another run. */
static lh_status compare_run(const char *path, const json_t *was, const json_t *is)
{
    lh_identity_difference d;
    if (lh_identity_differs(was, is, LH_BATCH_DIGITS, &d))
        LH_FAIL(LH_EUSAGE,
                "'%s' was made by another run: '%s' was %s and is %s; give the same options, or name another output",
                path, d.name, d.was, d.is);
    return LH_OK;
}

static lh_status check_runs(const lh_batch_records *records, const json_t *run)
{
    const json_t *seen = NULL;
    for (int64_t k = 0; k < records->n; k++) {
        if (records->at[k].run != seen) LH_TRY(compare_run(records->map.path, records->at[k].run, run));
        seen = records->at[k].run;
    }
    return LH_OK;
}

/* ---- requests ---- */

/* Requests named in a message, and bytes of a custom_id. */
enum { NAMED = 5, SHOWN = 60 };

int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record)
{
    int64_t i = record->custom_id ? lh_batch_input_find(input, record->custom_id) : -1;
    if (i < 0) i = lh_batch_input_find_number(input, record->number); /* such as a line that is no JSON */
    if (i < 0 || lh_batch_input_line(input, i)->hash != record->hash) return -1;
    return !record->custom_id && lh_batch_input_line(input, i)->custom_id ? -1 : i;
}

/* Appends "line 3 ('a')" to a list of the first NAMED records. */
static lh_status name_record(lh_buf *list, int64_t n, const lh_batch_record *record)
{
    if (n >= NAMED) return n == NAMED ? lh_buf_puts(list, ", …") : LH_OK;
    LH_TRY(lh_buf_printf(list, "%sline %lld", n ? ", " : "", (long long)record->number));
    return record->custom_id ? lh_buf_printf(list, " ('%.*s')", SHOWN, record->custom_id) : LH_OK;
}

/* ---- contexts ---- */

/* Hashes of context files, by name. */
typedef struct files {
    const char *root;
    lh_ids *numbers;    /* of the names */
    const char **names; /* [n] borrowed from the lines */
    uint64_t *hashes;   /* [n] of the texts; 0: the file cannot be read */
    int64_t n, cap;
    lh_buf text;
} files;

static void close_files(files *f)
{
    lh_ids_close(f->numbers);
    lh_free(f->names);
    lh_free(f->hashes);
    lh_buf_clear(&f->text);
}

static lh_status add_file(files *f, const char *name)
{
    if (f->n == f->cap) {
        f->cap = lh_max_i64(16, 2 * f->cap);
        LH_TRY(lh_realloc(&f->names, f->cap, sizeof *f->names));
        LH_TRY(lh_realloc(&f->hashes, f->cap, sizeof *f->hashes));
    }
    const lh_status st = lh_batch_context_read(&f->text, f->root, name);
    if (st == LH_ENOMEM) return st;
    lh_error_clear();
    f->names[f->n] = name;
    f->hashes[f->n] = st == LH_OK ? lh_batch_context_hash(&f->text) : 0;
    lh_ids_add(f->numbers, name, f->n++);
    return LH_OK;
}

/* *out: number of the file that a line names; -1: it names none. */
static lh_status find_file(files *f, const lh_batch_line *line, int64_t *out)
{
    *out = line->context_file ? lh_ids_find(f->numbers, line->context_file) : -1;
    if (*out >= 0 || !line->context_file) return LH_OK;
    *out = f->n;
    return add_file(f, line->context_file);
}

/* LH_EUSAGE if the text of a context file changed after requests about it were answered. */
static lh_status check_contexts(const lh_batch_resumed *r, const lh_batch_records *records)
{
    lh_status st = LH_OK;
    files f = {.root = r->context_root};
    lh_buf list = {0};
    int64_t changed = -1, lines = 0, file = -1;
    LH_TRY_DONE(lh_ids_open(&f.numbers, records->n));
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *record = &records->at[k];
        if (!record->context) continue; /* the line names no file, or an older version wrote it without the hash */
        LH_TRY_DONE(find_file(&f, lh_batch_input_line(r->input, lh_batch_resume_find(r->input, record)), &file));
        if (file < 0 || f.hashes[file] == record->context) continue;
        if (changed < 0) changed = file;
        if (changed == file) LH_TRY_DONE(name_record(&list, lines++, record));
    }
    if (changed >= 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "the context file '%s' %s after %lld requests about it were answered in '%s': %s. Restore it, or "
                     "name another output",
                     f.names[changed], f.hashes[changed] ? "changed" : "is gone or cannot be read", (long long)lines,
                     records->map.path, list.data);
done:
    lh_buf_clear(&list);
    close_files(&f);
    return st;
}

/* LH_EUSAGE: `changed` records answer no line of the input. first: the first changed record that is an answer, or the
 * first error if there is none; list: the first names. */
static lh_status fail_changed(const lh_batch_input *input, const lh_batch_records *records, int64_t changed,
                              const lh_batch_record *first, const char *list)
{
    const char *path = lh_batch_input_path(input), *output = records->map.path;
    if (lh_batch_input_is_elsewhere(input, first->hash))
        LH_FAIL(LH_EUSAGE,
                "'%s' answers %lld requests of another part of '%s': %s. Give the '--shard' that it was made with, or "
                "name another output; lines that were added before others change the parts, too",
                output, (long long)changed, path, list);
    LH_FAIL(LH_EUSAGE,
            "'%s' changed after %lld of its requests were answered in '%s': %s. Restore them, or name another output%s",
            path, (long long)changed, output, list,
            first->failed ? "; '--retry-failed' tries requests that failed again, as they are now" : "");
}

lh_status lh_batch_resume(const lh_batch_resumed *resumed, const lh_batch_records *records, unsigned char *done)
{
    lh_status st = LH_OK;
    const lh_batch_input *input = resumed->input;
    int64_t changed = 0;
    const lh_batch_record *first = NULL; /* changed record; an answer goes before an error */
    lh_buf list = {0};
    LH_TRY_DONE(check_runs(records, resumed->run));
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *record = &records->at[k];
        const int64_t i = lh_batch_resume_find(input, record);
        if (i < 0) {
            LH_TRY_DONE(name_record(&list, changed++, record));
            if (!first || (first->failed && !record->failed)) first = record;
            continue;
        }
        if (done[i])
            LH_FAIL_DONE(LH_EFILE, "'%s' is damaged: its line %lld answers line %lld of '%s' again. Delete that line",
                         records->map.path, (long long)k + 1, (long long)record->number, lh_batch_input_path(input));
        done[i] = 1;
    }
    if (changed) LH_TRY_DONE(fail_changed(input, records, changed, first, list.data));
    if (resumed->context_root) LH_TRY_DONE(check_contexts(resumed, records));
done:
    lh_buf_clear(&list);
    return st;
}

/* ---- retrying ---- */

/* Records [from, to) of an output. */
typedef struct span {
    const lh_batch_records *records;
    int64_t from, to;
} span;

/* Removes failed records, and with `input` also records of lines that are done. */
static void drop_records(lh_batch_records *r, const lh_batch_input *input, const unsigned char *done)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->at[i].failed || (input && done[lh_batch_resume_find(input, &r->at[i])]))
            lh_free(r->at[i].custom_id);
        else
            r->at[n++] = r->at[i];
    }
    r->n = n;
    r->failed = 0;
}

static lh_status write_spans(lh_journal *file, const span *spans, int n)
{
    for (int p = 0; p < n; p++)
        for (int64_t i = spans[p].from; i < spans[p].to; i++) {
            const lh_batch_record *record = &spans[p].records->at[i];
            LH_TRY(lh_journal_append(file, spans[p].records->map.data + record->at, record->bytes));
        }
    return LH_OK;
}

/* Replaces a file of this run by records; its permissions stay. */
static lh_status replace_file(const char *path, const span *spans, int n)
{
    lh_status st = LH_OK;
    struct stat info;
    lh_journal file = {.fd = -1};
    char *partial = NULL;
    LH_TRY_DONE(lh_partial_open(&partial, path));
    LH_TRY_DONE(lh_journal_open(&file, partial));
    if (stat(path, &info) == 0 && fchmod(file.fd, info.st_mode & 0777) != 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", partial, strerror(errno));
    LH_TRY_DONE(write_spans(&file, spans, n));
    LH_TRY_DONE(lh_partial_commit(path));
done:
    lh_journal_close(&file);
    if (st != LH_OK && partial) lh_partial_drop(path);
    lh_free(partial);
    return st;
}

/* Number of first records that are the first lines of the input. */
static int64_t count_in_order(const lh_batch_input *input, const lh_batch_records *records)
{
    int64_t k = 0;
    while (k < records->n && lh_batch_resume_find(input, &records->at[k]) == k) k++;
    return k;
}

lh_status lh_batch_retry_failed(const lh_batch_retry *r, int *changed)
{
    lh_status st = LH_OK;
    const lh_batch_input *input = r->resumed->input;
    lh_batch_records records = {.n = 0}, held = {.n = 0};
    unsigned char *done = NULL, *waiting = NULL;
    LH_TRY_DONE(lh_batch_records_read(&records, r->path));
    if (lh_file_exists(r->held_path)) LH_TRY_DONE(lh_batch_records_read(&held, r->held_path));
    *changed = records.failed + held.failed > 0;
    if (!*changed) goto done;
    drop_records(&records, NULL, NULL);
    drop_records(&held, NULL, NULL);
    LH_TRY_DONE(lh_calloc(&done, lh_batch_input_count(input), 1));
    LH_TRY_DONE(lh_calloc(&waiting, lh_batch_input_count(input), 1));
    LH_TRY_DONE(lh_batch_resume(r->resumed, &records, done));
    LH_TRY_DONE(lh_batch_resume(r->resumed, &held, waiting));
    drop_records(&held, input, done); /* a held line that is in the output, too, is dropped */
    const int64_t kept = r->ordered ? count_in_order(input, &records) : records.n;
    const span ahead[] = {{&held, 0, held.n}, {&records, kept, records.n}}, all = {&records, 0, kept};
    if (held.n || kept < records.n || lh_file_exists(r->held_path)) LH_TRY_DONE(replace_file(r->held_path, ahead, 2));
    LH_TRY_DONE(replace_file(r->path, &all, 1));
done:
    lh_batch_records_clear(&records);
    lh_batch_records_clear(&held);
    lh_free(done);
    lh_free(waiting);
    return st;
}
