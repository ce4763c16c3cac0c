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

/* 16 digits of a hexadecimal number in quotation marks. */
static int read_hash(const lh_skimmed *value, uint64_t *out)
{
    char digits[17] = "", *end = digits;
    if (value->bytes != 18 || *value->text != '"') return 0;
    memcpy(digits, value->text + 1, 16);
    *out = strtoull(digits, &end, 16);
    return end == digits + 16 && *digits != '-' && *digits != '+' && *digits != ' ';
}

static int is_null(const lh_skimmed *value)
{
    return value->bytes == 4 && memcmp(value->text, "null", 4) == 0;
}

/* As that, of a member that need not be there. */
static int read_context(const lh_skimmed *value, uint64_t *out)
{
    return !value->text || read_hash(value, out);
}

/* 1 if the line is a record, which is then complete but for its place. */
static int read_record(const char *line, int64_t bytes, lh_batch_record *out, lh_buf *id)
{
    enum { ID, CUSTOM_ID, LINE, HASH, ERROR, RESPONSE, RUN, REQUIRED, CONTEXT = REQUIRED, NAMES };
    static const char *const names[NAMES + 1] = {"id",       "custom_id", "line",         "hash", "error",
                                                 "response", "run",       "context_hash", NULL};
    lh_skimmed v[NAMES];
    if (!lh_skim(line, bytes, names, v)) return 0;
    for (int i = 0; i < REQUIRED; i++)
        if (!v[i].text) return 0;
    if (!read_context(&v[CONTEXT], &out->context)) return 0;
    out->failed = !is_null(&v[ERROR]);
    out->run = v[RUN];
    id->bytes = 0;
    if (out->failed != is_null(&v[RESPONSE])) return 0; /* the one or the other */
    if (!lh_skimmed_i64(&v[LINE], &out->number) || out->number < 1 || !read_hash(&v[HASH], &out->hash)) return 0;
    return is_null(&v[CUSTOM_ID]) || (lh_skimmed_text(&v[CUSTOM_ID], id) && id->bytes > 0);
}

static lh_status add_record(lh_batch_records *r, lh_batch_record record, const lh_buf *id)
{
    if (r->n == r->cap) {
        r->cap = lh_max_i64(1024, 2 * r->cap);
        LH_TRY(lh_realloc(&r->at, r->cap, sizeof *r->at));
    }
    if (id->bytes) LH_TRY(lh_strdup(&record.custom_id, id->data));
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

typedef struct reading {
    lh_batch_records *records;
    lh_buf id; /* of the last line */
} reading;

static lh_status read_line(void *self, const char *text, int64_t bytes, int *accepted)
{
    reading *r = self;
    lh_batch_record record = {.at = text - (const char *)r->records->map.data, .bytes = bytes + 1};
    *accepted = read_record(text, bytes, &record, &r->id);
    return *accepted ? add_record(r->records, record, &r->id) : LH_OK;
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

static lh_status read_records(lh_batch_records *r)
{
    reading lines = {.records = r};
    const lh_journal_reader reader = {&lines, read_line};
    const lh_status st = lh_journal_read_lines(&reader, (const char *)r->map.data, r->map.bytes, &r->good_bytes);
    lh_buf_clear(&lines.id);
    return st == LH_OK ? check_end(r) : st;
}

lh_status lh_batch_records_read(lh_batch_records *out, const char *path)
{
    struct stat info;
    *out = (lh_batch_records){.n = 0};
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0) return LH_OK;
    LH_TRY(lh_map_open(&out->map, path));
    return read_records(out);
}

void lh_batch_records_clear(lh_batch_records *records)
{
    for (int64_t i = 0; i < records->n; i++) lh_free(records->at[i].custom_id);
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
