/* merge.c - sorts the lines of several outputs by their numbers, and writes them. */
#include "batch/merge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "batch/appender.h"
#include "batch/ids.h"
#include "batch/records.h"

/* A line of one of the outputs. */
typedef struct entry {
    const lh_batch_record *record;
    int64_t file;
    int repeated; /* 1: an entry before it is the same line */
} entry;

typedef struct merge {
    const char *const *paths;
    int64_t n;
    lh_batch_records *outputs; /* [n] */
    entry *entries;            /* [count] */
    int64_t count;
    int by_file;
} merge;

static const char *text_of(const merge *m, const entry *e)
{
    return (const char *)m->outputs[e->file].map.data + e->record->at;
}

static int is_same_line(const merge *m, const entry *a, const entry *b)
{
    return a->record->bytes == b->record->bytes && memcmp(text_of(m, a), text_of(m, b), (size_t)a->record->bytes) == 0;
}

static int is_same_run(const lh_batch_records *a, const lh_batch_records *b)
{
    const lh_skimmed *x = a->n ? &a->at[0].run : NULL, *y = b->n ? &b->at[0].run : NULL;
    return !x || !y || (x->bytes == y->bytes && memcmp(x->text, y->text, (size_t)x->bytes) == 0);
}

/* ---- reading ---- */

static lh_status read_one(const merge *m, int64_t file)
{
    const char *path = m->paths[file];
    lh_batch_records *records = &m->outputs[file];
    LH_TRY(lh_batch_records_read(records, path));
    if (lh_appender_is_locked(path) == 1)
        LH_FAIL(LH_EINPUT, "'%s' is still being written: merge it when its job has ended", path);
    if (records->torn_bytes)
        LH_FAIL(LH_EINPUT, "'%s' ends in a line that was not written to its end: its job must be resumed first", path);
    if (!is_same_run(&m->outputs[0], records))
        lh_warn("'%s' and '%s' were made by runs with different options", m->paths[0], path);
    return LH_OK;
}

static lh_status read_outputs(merge *m)
{
    int64_t total = 0;
    LH_TRY(lh_calloc(&m->outputs, m->n, sizeof *m->outputs));
    for (int64_t f = 0; f < m->n; f++) {
        LH_TRY(read_one(m, f));
        total += m->outputs[f].n;
    }
    LH_TRY(lh_calloc(&m->entries, total, sizeof *m->entries));
    for (int64_t f = 0; f < m->n; f++)
        for (int64_t i = 0; i < m->outputs[f].n; i++) m->entries[m->count++] = (entry){&m->outputs[f].at[i], f, 0};
    return LH_OK;
}

/* ---- each request once ---- */

static lh_status fail_conflict(const merge *m, const entry *a, const entry *b)
{
    const long long at[] = {(long long)(a->record - m->outputs[a->file].at) + 1,
                            (long long)(b->record - m->outputs[b->file].at) + 1};
    LH_FAIL(LH_EFILE,
            "%s%.60s%s has two lines that differ: line %lld of '%s' and line %lld of '%s'. Delete one of them",
            a->record->custom_id ? "the custom_id '" : "a request", a->record->custom_id ? a->record->custom_id : "",
            a->record->custom_id ? "'" : "", at[0], m->paths[a->file], at[1], m->paths[b->file]);
}

static lh_status find_repeated(merge *m)
{
    lh_status st = LH_OK;
    lh_ids *ids = NULL;
    LH_TRY_DONE(lh_ids_open(&ids, m->count));
    for (int64_t i = 0; i < m->count; i++) {
        entry *e = &m->entries[i];
        const int64_t first = e->record->custom_id ? lh_ids_add(ids, e->record->custom_id, i) : -1;
        if (first < 0) continue;
        if (!is_same_line(m, &m->entries[first], e)) LH_TRY_DONE(fail_conflict(m, &m->entries[first], e));
        e->repeated = 1;
    }
done:
    lh_ids_close(ids);
    return st;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_number(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int number = compare(x->record->number, y->record->number), file = compare(x->file, y->file);
    return number ? number : file ? file : compare(x->record->at, y->record->at);
}

static int by_file(const void *a, const void *b)
{
    const int file = compare(((const entry *)a)->file, ((const entry *)b)->file);
    return file ? file : by_number(a, b);
}

/* Lines of one number are of one request, or of several inputs. Requests without a custom_id are known by it. */
static lh_status compare_numbers(merge *m)
{
    const entry *last = NULL;
    for (int64_t i = 0; i < m->count; i++) {
        const entry *e = &m->entries[i];
        if (e->repeated) continue;
        m->by_file |= last && last->record->number == e->record->number &&
                      (last->record->hash != e->record->hash || last->record->custom_id || e->record->custom_id);
        last = e;
    }
    last = NULL;
    for (int64_t i = 0; i < m->count && !m->by_file; i++) {
        entry *e = &m->entries[i];
        if (e->repeated) continue;
        if (last && last->record->number == e->record->number) {
            if (!is_same_line(m, last, e)) LH_TRY(fail_conflict(m, last, e));
            e->repeated = 1;
        } else {
            last = e;
        }
    }
    return LH_OK;
}

/* ---- writing ---- */

typedef struct write_to {
    int fd;
    const char *path;
} write_to;

/* *over: 1 when the reader of a stream has seen enough. */
static lh_status write_text(const write_to *to, const char *text, int64_t bytes, int *over)
{
    for (int64_t at = 0; at < bytes;) {
        const ssize_t n = write(to->fd, text + at, (size_t)(bytes - at));
        if (n < 0 && errno == EINTR) continue;
        *over = n < 0 && errno == EPIPE;
        if (*over) return LH_OK;
        if (n < 0) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", to->path, strerror(errno));
        at += n;
    }
    return LH_OK;
}

/* Byte for byte, but to a terminal. */
static lh_status write_lines(const merge *m, const write_to *to)
{
    lh_status st = LH_OK;
    const int shown = isatty(to->fd);
    lh_buf plain = {0};
    int over = 0;
    for (int64_t i = 0; i < m->count && !over; i++) {
        const entry *e = &m->entries[i];
        const char *text = text_of(m, e);
        int64_t bytes = e->record->bytes;
        if (e->repeated) continue;
        if (shown) {
            plain.bytes = 0;
            LH_TRY_DONE(lh_json_put_plain(&plain, text, bytes));
            text = plain.data;
            bytes = plain.bytes;
        }
        LH_TRY_DONE(write_text(to, text, bytes, &over));
    }
done:
    lh_buf_clear(&plain);
    return st;
}

static lh_status write_merged(const merge *m, const char *path)
{
    lh_status st = LH_OK;
    char *partial = NULL;
    int fd = -1;
    LH_TRY_DONE(lh_destination_open(&fd, path));
    if (fd >= 0) {
        LH_TRY_DONE(write_lines(m, &(write_to){fd, path}));
        goto done;
    }
    LH_TRY_DONE(lh_partial_open(&partial, path));
    fd = open(partial, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", partial, strerror(errno));
    LH_TRY_DONE(write_lines(m, &(write_to){fd, path}));
    LH_TRY_DONE(lh_partial_commit(path));
done:
    if (fd >= 0) close(fd);
    if (st != LH_OK && partial) lh_partial_drop(path);
    lh_free(partial);
    return st;
}

lh_status lh_batch_merge(const char *const *paths, int64_t n, const char *out, lh_batch_merged *merged)
{
    lh_status st = LH_OK;
    merge m = {.paths = paths, .n = n};
    *merged = (lh_batch_merged){.requests = 0};
    LH_TRY_DONE(read_outputs(&m));
    LH_TRY_DONE(find_repeated(&m));
    qsort(m.entries, (size_t)m.count, sizeof *m.entries, by_number);
    LH_TRY_DONE(compare_numbers(&m));
    if (m.by_file) qsort(m.entries, (size_t)m.count, sizeof *m.entries, by_file);
    LH_TRY_DONE(write_merged(&m, out));
    merged->by_file = m.by_file;
    for (int64_t i = 0; i < m.count; i++) {
        const entry *e = &m.entries[i];
        merged->repeated += e->repeated;
        merged->requests += !e->repeated;
        merged->failed += !e->repeated && e->record->failed;
    }
done:
    for (int64_t f = 0; m.outputs && f < n; f++) lh_batch_records_clear(&m.outputs[f]);
    lh_free(m.outputs);
    lh_free(m.entries);
    return st;
}
