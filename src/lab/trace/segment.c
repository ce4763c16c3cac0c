#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "lab/trace/segment.h"

enum { CHUNK_LEAST = 4 << 10, CHUNK_MOST = 1 << 20 }; /* bytes; HDF5 holds one chunk of 1 MiB in memory */

const lh_file_kind lh_trace_segment_kind = {.name = "trace-segment", .schema = LH_TRACE_SCHEMA};

static const char place[] = "at"; /* attribute: "0,3,0" */

/* %n comes behind the whole name. */
static const struct {
    const char *written, *read;
} names[] = {[LH_SEGMENT_OF_LAYER] = {"prefill-l%03lld-r%03d", "prefill-l%lld-r%d.h5%n"},
             [LH_SEGMENT_OF_ROWS] = {"after-n%04lld-r%03d", "after-n%lld-r%d.h5%n"}};

void lh_segment_name(char out[LH_SEGMENT_NAME], lh_segment_kind kind, int64_t number, int rank)
{
    snprintf(out, LH_SEGMENT_NAME, names[kind].written, (long long)number, rank);
}

/* Kind and number of a segment by the beginning of its file's name. Returns the bytes of the name; 0: it is none of a
 * layer or of rows. */
static int read_name(const char *file, lh_segment_kind *kind, int64_t *number)
{
    for (int k = LH_SEGMENT_OF_LAYER; k <= LH_SEGMENT_OF_ROWS; k++) {
        long long n = 0;
        int rank = 0, bytes = 0;
        if (sscanf(file, names[k].read, &n, &rank, &bytes) != 2 || bytes == 0) continue;
        *kind = (lh_segment_kind)k;
        *number = n;
        return bytes;
    }
    return 0;
}

lh_segment_kind lh_segment_kind_of(const char *file, int64_t *number)
{
    const char *slash = strrchr(file, '/');
    lh_segment_kind kind = LH_SEGMENT_OF_RUN;
    *number = 0;
    read_name(slash ? slash + 1 : file, &kind, number);
    return kind;
}

/* "" of a file that was written to its end, ".HOST.PID.partial" of another one. */
static int is_end(const char *text)
{
    const char *dot = strrchr(text, '.');
    return !*text || (*text == '.' && dot > text && strcmp(dot, ".partial") == 0);
}

int lh_segment_is_file(const char *file)
{
    static const char *const of_runs[] = {"run.h5", "run-end.h5", "prompt.h5"};
    lh_segment_kind kind;
    int64_t number;
    const int bytes = read_name(file, &kind, &number);
    for (size_t i = 0; i < sizeof of_runs / sizeof *of_runs; i++)
        if (strncmp(file, of_runs[i], strlen(of_runs[i])) == 0 && is_end(file + strlen(of_runs[i]))) return 1;
    return bytes && is_end(file + bytes);
}

void lh_segment_clear(lh_segment *s)
{
    for (int64_t i = 0; i < s->slab_count; i++) lh_free(s->slabs[i].data);
    for (int64_t i = 0; i < s->text_count; i++) lh_free(s->texts[i].text);
    lh_free(s->slabs);
    lh_free(s->texts);
    *s = (lh_segment){0};
}

lh_status lh_segment_add(lh_segment *s, const lh_slab *slab)
{
    lh_status st = lh_realloc(&s->slabs, s->slab_count + 1, sizeof *s->slabs);
    if (st != LH_OK)
        lh_free(slab->data);
    else
        s->slabs[s->slab_count++] = *slab;
    return st;
}

lh_status lh_segment_add_text(lh_segment *s, const char *name, const char *text)
{
    lh_segment_text *t;
    LH_TRY(lh_realloc(&s->texts, s->text_count + 1, sizeof *s->texts));
    t = &s->texts[s->text_count];
    snprintf(t->name, sizeof t->name, "%s", name);
    LH_TRY(lh_strdup(&t->text, text));
    s->text_count++;
    return LH_OK;
}

/* Chunks as the slab wants them, and as large as they may be; contiguous where they would be small. */
static lh_h5_storage storage_of(const lh_slab *slab, lh_h5_filter filter)
{
    lh_h5_storage out = {.filter = filter};
    int64_t bytes = lh_dtype_bytes(slab->shape.type), wanted = 0;
    for (int d = 0; d < slab->shape.rank; d++) {
        out.chunk[d] = lh_min_i64(slab->chunk[d], slab->shape.dims[d]);
        if (out.chunk[d]) bytes *= out.chunk[d];
        wanted |= slab->chunk[d];
    }
    for (int d = 0; d < slab->shape.rank && wanted; d++) {
        if (out.chunk[d]) continue;
        out.chunk[d] = lh_min_i64(lh_max_i64(CHUNK_MOST / bytes, 1), slab->shape.dims[d]);
        bytes *= out.chunk[d];
    }
    return wanted && bytes >= CHUNK_LEAST ? out : (lh_h5_storage){0};
}

static lh_status write_slab(lh_h5 *h5, const lh_slab *slab, lh_h5_filter filter)
{
    const lh_h5_storage storage = storage_of(slab, filter);
    char text[96];
    int n = 0;
    for (int d = 0; d < slab->shape.rank; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? "," : "", (long long)slab->at[d]);
    LH_TRY(lh_h5_put_stored(h5, slab->name, &slab->shape, &storage, slab->data));
    return lh_h5_put_string(h5, slab->name, place, text);
}

lh_status lh_segment_write(const lh_segment *s, const char *folder, lh_h5_filter filter)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    char *path = NULL;
    LH_TRY_DONE(lh_asprintf(&path, "%s/%s.h5", folder, s->name));
    LH_TRY_DONE(
        lh_h5_create(&h5, path, &(lh_h5_header){.kind = "trace-segment", .schema = LH_TRACE_SCHEMA, .run = s->run}));
    for (int64_t i = 0; i < s->slab_count; i++) LH_TRY_DONE(write_slab(h5, &s->slabs[i], filter));
    for (int64_t i = 0; i < s->text_count; i++)
        LH_TRY_DONE(lh_h5_put_text(h5, s->texts[i].name, s->texts[i].text, (int64_t)strlen(s->texts[i].text)));
    lh_h5 *whole = h5;
    h5 = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    lh_h5_close(h5);
    lh_free(path);
    return st;
}

lh_status lh_segment_place(lh_h5 *h5, const char *name, lh_slab *out)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    char *text = NULL;
    *out = (lh_slab){0};
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    out->shape = *lh_h5_array_shape(array);
    LH_TRY_DONE(lh_h5_get_string(h5, name, place, &text));
    const char *at = text ? text : "";
    for (int d = 0; d < out->shape.rank; d++) {
        long long first = -1;
        int used = 0;
        if (sscanf(at, d ? ",%lld%n" : "%lld%n", &first, &used) != 1 || first < 0 || first > INT32_MAX)
            LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' does not say where in its array it lies", name, lh_h5_path(h5));
        out->at[d] = first;
        at += used;
    }
    if (strlen(name) >= sizeof out->name)
        LH_FAIL_DONE(LH_EFILE, "'%s' is an array that a trace does not have: '%s'", lh_h5_path(h5), name);
    snprintf(out->name, sizeof out->name, "%s", name);
done:
    lh_free(text);
    lh_h5_array_close(array);
    return st;
}

struct lh_segment_writer {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    lh_segment segment; /* that is to be written, or is being written */
    int busy, ends, runs;
    lh_status st; /* the first failure, with its message */
    char message[2048];
    char *folder;
    lh_h5_filter filter;
};

static void *write_segments(void *arg)
{
    lh_segment_writer *w = arg;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->busy && !w->ends) pthread_cond_wait(&w->changed, &w->mutex);
        if (!w->busy) break;
        pthread_mutex_unlock(&w->mutex);
        lh_status st = lh_segment_write(&w->segment, w->folder, w->filter);
        lh_segment_clear(&w->segment);
        pthread_mutex_lock(&w->mutex);
        if (st != LH_OK && w->st == LH_OK) {
            w->st = st;
            snprintf(w->message, sizeof w->message, "%s", lh_error_message());
        }
        w->busy = 0;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

lh_status lh_segment_writer_open(lh_segment_writer **out, const char *folder, lh_h5_filter filter)
{
    lh_status st = LH_OK;
    lh_segment_writer *w = NULL;
    LH_TRY_DONE(lh_calloc(&w, 1, sizeof *w));
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    LH_TRY_DONE(lh_strdup(&w->folder, folder));
    w->filter = filter;
    if (pthread_create(&w->thread, NULL, write_segments, w) != 0)
        LH_FAIL_DONE(LH_EINTERNAL, "cannot start the thread that writes the trace");
    w->runs = 1;
    *out = w;
    w = NULL;
done:
    lh_segment_writer_close(w);
    return st;
}

/* With the mutex: waits until nothing is being written; the failure so far. */
static lh_status settle(lh_segment_writer *w)
{
    while (w->busy) pthread_cond_wait(&w->changed, &w->mutex);
    if (w->st != LH_OK) LH_FAIL(w->st, "%s", w->message);
    return LH_OK;
}

lh_status lh_segment_writer_put(lh_segment_writer *w, lh_segment *segment)
{
    pthread_mutex_lock(&w->mutex);
    lh_status st = settle(w);
    if (st == LH_OK) {
        w->segment = *segment;
        *segment = (lh_segment){0};
        w->busy = 1;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return st;
}

lh_status lh_segment_writer_drain(lh_segment_writer *w)
{
    pthread_mutex_lock(&w->mutex);
    lh_status st = settle(w);
    pthread_mutex_unlock(&w->mutex);
    return st;
}

void lh_segment_writer_close(lh_segment_writer *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->mutex);
    w->ends = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    if (w->runs) pthread_join(w->thread, NULL);
    lh_segment_clear(&w->segment);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    lh_free(w->folder);
    lh_free(w);
}
