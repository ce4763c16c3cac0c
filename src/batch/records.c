/* records.c - reads outputs. */
#include "batch/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal.h"
#include "base/json.h"
#include "base/minmax.h"
#include "batch/answer.h"

/* 16 digits of a hexadecimal number. */
static int read_hash(const json_t *value, uint64_t *out)
{
    const char *digits = json_string_value(value);
    if (!digits || strlen(digits) != 16 || strspn(digits, "0123456789abcdefABCDEF") != 16) return 0;
    *out = strtoull(digits, NULL, 16);
    return 1;
}

/* True if the object is a record, which is then complete but for its place; id: borrowed from the object. */
static int read_record(const json_t *line, lh_batch_record *out, const char **id)
{
    const json_t *error = json_object_get(line, "error"), *response = json_object_get(line, "response");
    const json_t *custom_id = json_object_get(line, "custom_id"), *context = json_object_get(line, "context_hash");
    const json_t *number = json_object_get(line, "line");
    if (!json_object_get(line, "id") || !json_object_get(line, "run")) return 0;
    if (!error || !response || json_is_null(error) == json_is_null(response)) return 0; /* the one or the other */
    out->failed = !json_is_null(error);
    out->number = json_integer_value(number);
    if (!json_is_integer(number) || out->number < 1 || !read_hash(json_object_get(line, "hash"), &out->hash)) return 0;
    if (context && !read_hash(context, &out->context)) return 0;
    *id = json_string_value(custom_id);
    return json_is_null(custom_id) || (*id && **id && strlen(*id) == json_string_length(custom_id));
}

/* *out: an object that equals `run`; lines of one run share it. */
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

/* 1 if a write that did not reach its end can have left these bytes: the beginning of a line, or the zeros of a file
 * that grew before its data were on the disk. */
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
    const char *line = (const char *)r->map.data + r->good_bytes;
    const int64_t left = r->map.bytes - r->good_bytes;
    const char *feed = left ? memchr(line, '\n', (size_t)left) : NULL;
    const int64_t bytes = feed ? feed + 1 - line : left;
    if (left == 0) return LH_OK;
    if (bytes < left && (r->n > 0 || is_torn(line, bytes)))
        LH_FAIL(
            LH_EFILE,
            "'%s' is damaged: line %lld, at byte %lld, is no line of a batch's output, and others follow it. Delete "
            "that line, and its request is answered again",
            r->map.path, (long long)r->n + 1, (long long)r->good_bytes);
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
                                 &out->good_bytes));
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
