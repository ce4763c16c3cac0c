#include "lab/trace/segment_writer.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"

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
    int64_t bytes;
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
        for (int64_t i = 0; i < segment->slab_count; i++)
            w->bytes += lh_h5_shape_count(&segment->slabs[i].shape) * lh_dtype_bytes(segment->slabs[i].shape.type);
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

int64_t lh_segment_writer_bytes(const lh_segment_writer *w)
{
    return w->bytes;
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
