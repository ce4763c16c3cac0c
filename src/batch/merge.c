/* merge.c - sorts the lines of several outputs by their numbers, and writes them. */
#include "batch/merge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "batch/input.h"
#include "batch/resume.h"
#include "batch/state.h"

/* A line of one of the outputs. */
typedef struct entry {
    const lh_batch_record *record;
    int64_t file;
    enum { WRITTEN, REPEATED, RETRIED } fate; /* another entry is the same line, or replaces it */
} entry;

typedef struct merge {
    const char *const *paths;
    int64_t n;
    lh_batch_records *outputs; /* [n] */
    lh_batch_state *states;    /* [n] */
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
    return a->n == 0 || b->n == 0 || json_equal(a->at[0].run, b->at[0].run);
}

/* ---- reading ---- */

static lh_status read_one(const merge *m, int64_t file)
{
    const char *path = m->paths[file];
    lh_batch_records *records = &m->outputs[file];
    LH_TRY(lh_batch_state_of(&m->states[file], path));
    if (m->states[file].stage == LH_BATCH_DONE && !lh_file_exists(path)) {
        const long long total = (long long)m->states[file].total;
        if (total == 0) return LH_OK; /* a part without a request leaves no file */
        LH_FAIL(LH_EINPUT, "'%s' is gone, and had the lines of %lld requests: its job must run again", path, total);
    }
    LH_TRY(lh_batch_records_read(records, path));
    if (lh_journal_is_locked(path) == 1)
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
    LH_TRY(lh_calloc(&m->states, m->n, sizeof *m->states));
    for (int64_t f = 0; f < m->n; f++) {
        LH_TRY(read_one(m, f));
        total += m->outputs[f].n;
    }
    LH_TRY(lh_calloc(&m->entries, total, sizeof *m->entries));
    for (int64_t f = 0; f < m->n; f++)
        for (int64_t i = 0; i < m->outputs[f].n; i++)
            m->entries[m->count++] = (entry){&m->outputs[f].at[i], f, WRITTEN};
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

/* Chooses between two entries of a request, `a` from an earlier output than `b`: an answer before an error, else the
 * later error. */
static lh_status choose_entry(const merge *m, entry *a, entry *b)
{
    if (is_same_line(m, a, b)) {
        b->fate = REPEATED;
        return LH_OK;
    }
    if (!a->record->failed && !b->record->failed) return fail_conflict(m, a, b);
    (a->record->failed ? a : b)->fate = RETRIED;
    return LH_OK;
}

static lh_status find_repeated(merge *m)
{
    lh_status st = LH_OK;
    lh_ids *ids = NULL;
    int64_t *written = NULL; /* [count] the entry to be written, by the first entry of a custom_id */
    LH_TRY_DONE(lh_ids_open(&ids, m->count));
    LH_TRY_DONE(lh_calloc(&written, m->count, sizeof *written));
    for (int64_t i = 0; i < m->count; i++) {
        const char *id = m->entries[i].record->custom_id;
        const int64_t first = id ? lh_ids_add(ids, id, i) : -1;
        if (first < 0) {
            written[i] = i;
            continue;
        }
        LH_TRY_DONE(choose_entry(m, &m->entries[written[first]], &m->entries[i]));
        if (m->entries[i].fate == WRITTEN) written[first] = i;
    }
done:
    lh_ids_close(ids);
    lh_free(written);
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

/* True for a line that was no valid request: it is known by its number, and may have been corrected since. */
static int is_unreadable(const entry *e)
{
    return e->record->failed && !e->record->custom_id;
}

/* Lines with the same number belong to the same request, or to different inputs. */
static int differ(const entry *a, const entry *b)
{
    if (a->record->number != b->record->number || is_unreadable(a) || is_unreadable(b)) return 0;
    return a->record->hash != b->record->hash || a->record->custom_id || b->record->custom_id;
}

static lh_status compare_numbers(merge *m)
{
    entry *last = NULL;
    for (int64_t i = 0; i < m->count; i++) {
        entry *e = &m->entries[i];
        if (e->fate != WRITTEN || is_unreadable(e)) continue;
        m->by_file |= last && differ(last, e);
        last = e;
    }
    last = NULL;
    for (int64_t i = 0; i < m->count && !m->by_file; i++) {
        entry *e = &m->entries[i];
        if (e->fate != WRITTEN) continue;
        if (last && last->record->number == e->record->number) LH_TRY(choose_entry(m, last, e));
        if (e->fate == WRITTEN) last = e;
    }
    return LH_OK;
}

/* ---- nothing is lost ---- */

/* Missing lines are an error, with `partial` a warning. */
static lh_status report_missing(const lh_buf *what, int partial)
{
    if (!partial)
        LH_FAIL(LH_EINPUT, "%s: resume the jobs of the others, or give '--partial' to write what there is", what->data);
    lh_warn("%s", what->data);
    return LH_OK;
}

/* The parts of an input must have a line for each of its requests, as far as their states are known; with several
 * inputs each output must be complete. */
static lh_status check_whole(const merge *m, int64_t requests, int partial)
{
    lh_status st = LH_OK;
    const lh_batch_state *whole = NULL;
    lh_buf what = {0};
    for (int64_t f = 0; f < m->n; f++) {
        const lh_batch_state *s = &m->states[f];
        if (!whole || s->input_total > whole->input_total) whole = s;
        if ((!m->by_file && s->stage != LH_BATCH_DONE) || m->outputs[f].n >= s->total) continue;
        what.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&what, "'%s' has %lld of its %lld requests", m->paths[f], (long long)m->outputs[f].n,
                                  (long long)s->total));
        LH_TRY_DONE(report_missing(&what, partial));
    }
    if (m->by_file || requests >= whole->input_total) goto done;
    what.bytes = 0;
    LH_TRY_DONE(lh_buf_printf(&what, "these outputs have %lld of the %lld requests of '%s'", (long long)requests,
                              (long long)whole->input_total, whole->input ? whole->input : "the input"));
    LH_TRY_DONE(report_missing(&what, partial));
done:
    lh_buf_clear(&what);
    return st;
}

/* ---- writing ---- */

typedef struct write_to {
    int fd;
    const char *path;
} write_to;

/* *over: true when the reader of a stream has closed it. */
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

/* Byte for byte, except to a terminal. */
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
        if (e->fate != WRITTEN) continue;
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

static void count_fates(const merge *m, lh_batch_merged *merged)
{
    for (int64_t i = 0; i < m->count; i++) {
        const entry *e = &m->entries[i];
        merged->repeated += e->fate == REPEATED;
        merged->retried += e->fate == RETRIED;
        merged->requests += e->fate == WRITTEN;
        merged->failed += e->fate == WRITTEN && e->record->failed;
    }
    merged->by_file = m->by_file;
}

lh_status lh_batch_merge(const lh_batch_merge_options *options, lh_batch_merged *merged)
{
    lh_status st = LH_OK;
    merge m = {.paths = options->paths, .n = options->n};
    *merged = (lh_batch_merged){.requests = 0};
    LH_TRY_DONE(read_outputs(&m));
    LH_TRY_DONE(find_repeated(&m));
    qsort(m.entries, (size_t)m.count, sizeof *m.entries, by_number);
    LH_TRY_DONE(compare_numbers(&m));
    if (m.by_file) qsort(m.entries, (size_t)m.count, sizeof *m.entries, by_file);
    count_fates(&m, merged);
    LH_TRY_DONE(check_whole(&m, merged->requests, options->partial));
    LH_TRY_DONE(write_merged(&m, options->out));
done:
    for (int64_t f = 0; m.outputs && f < m.n; f++) lh_batch_records_clear(&m.outputs[f]);
    for (int64_t f = 0; m.states && f < m.n; f++) lh_batch_state_clear(&m.states[f]);
    lh_free(m.outputs);
    lh_free(m.states);
    lh_free(m.entries);
    return st;
}
