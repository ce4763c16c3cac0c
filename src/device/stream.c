/* stream.c - work enqueued on a device: copies, workspace of operations, captured work, times. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "device/device_impl.h"

/* Host memory for data that is put on a stream between two waits. */
enum { POST_BYTES = 256 << 10, POST_ALIGN = 64 };

static lh_workspace *join_workspace(lh_workspace *w)
{
    if (w) w->users++;
    return w;
}

static void leave_workspace(lh_device *device, lh_workspace *w)
{
    if (!w || --w->users > 0) return;
    lh_device_free(device, w->p);
    lh_free(w);
}

lh_status lh_stream_open(lh_stream **out, lh_device *device)
{
    lh_status st = LH_OK;
    lh_stream *stream = NULL;
    LH_TRY_DONE(lh_calloc(&stream, 1, sizeof *stream));
    stream->device = device;
    pthread_mutex_lock(&device->lock);
    if (device->ops->stream_open) st = device->ops->stream_open(stream);
    pthread_mutex_unlock(&device->lock);
    LH_TRY_DONE(st);
    *out = stream;
    stream = NULL;
done:
    lh_free(stream);
    return st;
}

void lh_stream_close(lh_stream *stream)
{
    if (!stream) return;
    lh_device *device = stream->device;
    leave_workspace(device, stream->scratch);
    leave_workspace(device, stream->counters);
    pthread_mutex_lock(&device->lock);
    if (device->ops->stream_close) device->ops->stream_close(stream);
    pthread_mutex_unlock(&device->lock);
    lh_device_free_host(device, stream->staging);
    lh_device_free_host(device, stream->post);
    lh_free(stream);
}

lh_device *lh_stream_device(const lh_stream *stream)
{
    return stream->device;
}

void lh_stream_latch(lh_stream *stream, lh_status st)
{
    if (st == LH_OK || stream->failed != LH_OK) return;
    stream->failed = st;
    snprintf(stream->message, sizeof stream->message, "%s", lh_error_message());
}

lh_status lh_stream_status(const lh_stream *stream)
{
    return stream->failed;
}

lh_status lh_stream_take(lh_stream *stream)
{
    lh_status failed = stream->failed;
    stream->failed = LH_OK;
    if (failed != LH_OK) LH_FAIL(failed, "%s", stream->message);
    return LH_OK;
}

void lh_stream_watch(lh_stream *stream, const lh_stream_waiter *waiter)
{
    stream->waiter = waiter ? *waiter : (lh_stream_waiter){0};
}

lh_status lh_stream_sync(lh_stream *stream)
{
    lh_status st = LH_OK;
    const lh_stream_waiter *w = &stream->waiter;
    if (stream->recording) LH_FAIL(LH_EINTERNAL, "work that is only recorded is waited for");
    if (w->before) w->before(w->self);
    if (stream->device->ops->stream_sync) st = stream->device->ops->stream_sync(stream);
    if (w->after) w->after(w->self);
    stream->posted = 0;
    return st;
}

lh_status lh_stream_after(lh_stream *stream, lh_stream *first)
{
    lh_device *device = stream->device;
    assert(first->device == device && !stream->recording && !first->recording);
    if (!device->ops->stream_after) return LH_OK;
    pthread_mutex_lock(&device->lock);
    lh_status st = device->ops->stream_after(stream, first);
    pthread_mutex_unlock(&device->lock);
    return st;
}

/* Replaces *at, which is too small or NULL. The old block is freed first, unless a graph holds it: the peak is one
 * workspace, not two. */
static lh_status grow_workspace(lh_stream *stream, lh_workspace **at, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_workspace *grown = NULL;
    LH_TRY_DONE(lh_stream_sync(stream)); /* enqueued work may still use it */
    leave_workspace(stream->device, *at);
    *at = NULL;
    LH_TRY_DONE(lh_calloc(&grown, 1, sizeof *grown));
    LH_TRY_DONE(lh_device_alloc(stream->device, &grown->p, bytes, LH_MEM_WORK));
    grown->bytes = bytes;
    *at = join_workspace(grown);
    grown = NULL;
done:
    lh_free(grown);
    return st;
}

static int is_too_small(const lh_workspace *w, int64_t bytes)
{
    return !w || w->bytes < bytes;
}

lh_status lh_stream_scratch(lh_stream *stream, void *out, int64_t bytes)
{
    if (is_too_small(stream->scratch, bytes)) LH_TRY(grow_workspace(stream, &stream->scratch, bytes));
    memcpy(out, &stream->scratch->p, sizeof stream->scratch->p);
    return LH_OK;
}

lh_status lh_stream_counters(lh_stream *stream, uint32_t **out, int64_t count)
{
    int64_t bytes = count * (int64_t)sizeof **out;
    if (is_too_small(stream->counters, bytes)) {
        LH_TRY(grow_workspace(stream, &stream->counters, bytes));
        LH_TRY(lh_stream_zero(stream, stream->counters->p, bytes));
    }
    *out = stream->counters->p;
    return LH_OK;
}

lh_status lh_stream_staging(lh_stream *stream, void *out, int64_t bytes)
{
    lh_device *device = stream->device;
    if (bytes > stream->staging_bytes) {
        LH_TRY(lh_stream_sync(stream)); /* enqueued copies may still use it */
        lh_device_free_host(device, stream->staging);
        stream->staging = NULL;
        stream->staging_bytes = 0;
        LH_TRY(lh_device_alloc_host(device, &stream->staging, bytes));
        stream->staging_bytes = bytes;
    }
    memcpy(out, &stream->staging, sizeof stream->staging);
    return LH_OK;
}

lh_status lh_stream_copy(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    assert(bytes >= 0);
    return bytes ? stream->device->ops->copy(stream, dst, src, bytes, way) : LH_OK;
}

lh_status lh_stream_zero(lh_stream *stream, void *dst, int64_t bytes)
{
    assert(bytes >= 0);
    return bytes ? stream->device->ops->zero(stream, dst, bytes) : LH_OK;
}

lh_status lh_stream_put(lh_stream *stream, void *dst, const void *src, int64_t bytes)
{
    lh_device *device = stream->device;
    if (device->kind == LH_DEVICE_CPU) return lh_stream_copy(stream, dst, src, bytes, LH_COPY_TO_DEVICE);
    if (stream->recording) LH_FAIL(LH_EINTERNAL, "host memory is put on a device by work that is only recorded");
    if (!stream->post) LH_TRY(lh_device_alloc_host(device, &stream->post, POST_BYTES));
    for (int64_t done = 0, n; done < bytes; done += n) {
        if (stream->posted == POST_BYTES) LH_TRY(lh_stream_sync(stream));
        n = lh_min_i64(bytes - done, POST_BYTES - stream->posted);
        memcpy(stream->post + stream->posted, (const char *)src + done, (size_t)n);
        LH_TRY(lh_stream_copy(stream, (char *)dst + done, stream->post + stream->posted, n, LH_COPY_TO_DEVICE));
        stream->posted += (n + POST_ALIGN - 1) / POST_ALIGN * POST_ALIGN;
    }
    return LH_OK;
}

/* ---- CUDA graphs ---- */

int lh_device_records(const lh_device *device)
{
    return device->ops->record != NULL;
}

static void begin_recording(lh_stream *stream)
{
    pthread_mutex_lock(&stream->device->lock);
    stream->device->recording++;
    stream->recording = 1;
}

static void end_recording(lh_stream *stream)
{
    stream->recording = 0;
    stream->device->recording--;
    pthread_mutex_unlock(&stream->device->lock);
}

lh_status lh_stream_record(lh_stream *stream)
{
    assert(lh_device_records(stream->device) && !stream->recording);
    begin_recording(stream);
    lh_status st = stream->device->ops->record(stream);
    if (st != LH_OK) end_recording(stream);
    return st;
}

lh_status lh_stream_recorded(lh_stream *stream, lh_graph **out)
{
    lh_status st = LH_OK;
    lh_graph *graph = NULL;
    assert(stream->recording);
    st = lh_calloc(&graph, 1, sizeof *graph);
    if (st == LH_OK) {
        *graph = (lh_graph){
            .stream = stream, .scratch = join_workspace(stream->scratch), .counters = join_workspace(stream->counters)};
        st = stream->device->ops->recorded(graph);
    }
    end_recording(stream);
    LH_TRY_DONE(st);
    if (out) {
        *out = graph;
        graph = NULL;
    }
done:
    lh_graph_close(graph);
    return st;
}

int64_t lh_graph_nodes(const lh_graph *graph)
{
    return graph->nodes;
}

lh_status lh_graph_run(lh_graph *graph)
{
    assert(!graph->stream->recording);
    return graph->stream->device->ops->graph_run(graph);
}

void lh_graph_close(lh_graph *graph)
{
    if (!graph) return;
    lh_device *device = graph->stream->device;
    if (graph->impl) device->ops->graph_close(graph);
    leave_workspace(device, graph->scratch);
    leave_workspace(device, graph->counters);
    lh_free(graph);
}

lh_status lh_event_open(lh_event **out, lh_device *device)
{
    lh_status st = LH_OK;
    lh_event *event = NULL;
    LH_TRY_DONE(lh_calloc(&event, 1, sizeof *event));
    event->device = device;
    LH_TRY_DONE(device->ops->event_open(event));
    *out = event;
    event = NULL;
done:
    lh_free(event);
    return st;
}

void lh_event_close(lh_event *event)
{
    if (!event) return;
    event->device->ops->event_close(event);
    lh_free(event);
}

lh_status lh_event_record(lh_event *event, lh_stream *stream)
{
    assert(event->device == stream->device);
    event->recorded = 1;
    return event->device->ops->event_record(event, stream);
}

lh_status lh_event_seconds(lh_event *first, lh_event *last, double *seconds)
{
    assert(first->recorded && last->recorded);
    return first->device->ops->event_seconds(first, last, seconds);
}
