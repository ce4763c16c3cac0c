#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/device_impl.h"

/* Blocks of this size must also fit into what the machine has free when they are asked for: Linux hands out more than
 * it has and kills the process later. */
static const int64_t LARGE_BYTES = 64 << 20;

static const struct {
    const char *name;
    void (*find)(lh_device_found *found);
    const lh_device_ops *ops;
} kinds[LH_DEVICE_KINDS] = {
    [LH_DEVICE_CPU] = {"cpu", lh_cpu_device_find, &lh_cpu_device_ops},
    [LH_DEVICE_CUDA] = {"cuda", lh_cuda_device_find, &lh_cuda_device_ops},
};

static const char *const what_names[LH_MEM_KINDS] = {
    [LH_MEM_WEIGHTS] = "weights", [LH_MEM_KV] = "the cache", [LH_MEM_WORK] = "work space"};

const char *lh_device_kind_name(lh_device_kind kind)
{
    return kinds[kind].name;
}

int lh_device_kind_find(const char *name, lh_device_kind *out)
{
    for (int k = 0; k < LH_DEVICE_KINDS; k++) {
        if (strcmp(kinds[k].name, name) != 0) continue;
        *out = (lh_device_kind)k;
        return 1;
    }
    return 0;
}

void lh_device_find(lh_device_kind kind, lh_device_found *found)
{
    *found = (lh_device_found){0};
    kinds[kind].find(found);
}

lh_status lh_device_open(lh_device **out, const lh_device_choice *choice)
{
    lh_status st = LH_OK;
    lh_device *device = NULL;
    LH_TRY(lh_calloc(&device, 1, sizeof *device));
    device->ops = kinds[choice->kind].ops;
    device->kind = choice->kind;
    LH_TRY(device->ops->open(device, choice->index));
    device->limit_bytes = choice->limit_bytes > 0 ? choice->limit_bytes : device->ops->free_bytes(device);
    pthread_mutex_init(&device->lock, NULL);
    *out = device;
    device = NULL;
done:
    lh_free(device);
    return st;
}

void lh_device_set_limit(lh_device *device, int64_t limit_bytes)
{
    device->limit_bytes = limit_bytes;
}

void lh_device_close(lh_device *device)
{
    if (!device) return;
    assert(device->blocks_held == 0 && "memory of a device that is closed");
    device->ops->close(device);
    pthread_mutex_destroy(&device->lock);
    lh_free(device->blocks);
    lh_free(device);
}

lh_device_kind lh_device_kind_of(const lh_device *device)
{
    return device->kind;
}

const char *lh_device_name(const lh_device *device)
{
    return device->name;
}

const char *lh_device_bus(const lh_device *device)
{
    return device->bus;
}

int64_t lh_device_free_bytes(const lh_device *device)
{
    return device->ops->free_bytes(device);
}

/* Index of the first block at or above p. */
static int64_t block_at(const lh_device *device, const void *p)
{
    int64_t low = 0, high = device->blocks_held;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((const char *)device->blocks[middle].p < (const char *)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void count(lh_mem_usage *usage, lh_mem what, int64_t bytes)
{
    usage->now[what] += bytes;
    usage->now_total += bytes;
    if (usage->now[what] > usage->peak[what]) usage->peak[what] = usage->now[what];
    if (usage->now_total > usage->peak_total) usage->peak_total = usage->now_total;
}

static lh_status check_limit(const lh_device *device, int64_t bytes, lh_mem what)
{
    lh_status st = LH_OK;
    const double gib = 1 << 30;
    int64_t held = device->usage.now_total;
    if (bytes > device->limit_bytes - held)
        LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB for %s: %.3f GiB are held and the limit is %.3f GiB",
                (double)bytes / gib, what_names[what], (double)held / gib, (double)device->limit_bytes / gib);
    if (bytes >= LARGE_BYTES) {
        int64_t free_bytes = device->ops->free_bytes(device);
        if (bytes > free_bytes)
            LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB for %s: %.3f GiB are held and %.3f GiB are free on the device",
                    (double)bytes / gib, what_names[what], (double)held / gib, (double)free_bytes / gib);
    }
done:
    return st;
}

static lh_status alloc_locked(lh_device *device, void **out, int64_t bytes, lh_mem what)
{
    lh_status st = LH_OK;
    LH_TRY(check_limit(device, bytes, what));
    if (device->blocks_held == device->blocks_cap) {
        int64_t cap = device->blocks_cap ? 2 * device->blocks_cap : 64;
        LH_TRY(lh_realloc(&device->blocks, cap, sizeof *device->blocks));
        device->blocks_cap = cap;
    }
    device->ops->alloc(device, out, bytes);
    if (!*out)
        LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB for %s: %.3f GiB are held and the system gives no more",
                (double)bytes / (1 << 30), what_names[what], (double)device->usage.now_total / (1 << 30));
    int64_t at = block_at(device, *out);
    memmove(device->blocks + at + 1, device->blocks + at, (size_t)(device->blocks_held - at) * sizeof *device->blocks);
    device->blocks[at] = (lh_block){.p = *out, .bytes = bytes, .what = what};
    device->blocks_held++;
    count(&device->usage, what, bytes);
done:
    return st;
}

lh_status lh_device_alloc(lh_device *device, void *out, int64_t bytes, lh_mem what)
{
    lh_status st = LH_OK;
    void *p = NULL;
    assert(bytes >= 0);
    if (bytes > 0) {
        pthread_mutex_lock(&device->lock);
        st = alloc_locked(device, &p, bytes, what);
        pthread_mutex_unlock(&device->lock);
        LH_TRY(st);
    }
    memcpy(out, &p, sizeof p);
done:
    return st;
}

void lh_device_free(lh_device *device, void *p)
{
    if (!p) return;
    pthread_mutex_lock(&device->lock);
    int64_t at = block_at(device, p);
    assert(at < device->blocks_held && device->blocks[at].p == p && "not a block of this device");
    lh_block block = device->blocks[at];
    device->blocks_held--;
    memmove(device->blocks + at, device->blocks + at + 1, (size_t)(device->blocks_held - at) * sizeof *device->blocks);
    count(&device->usage, block.what, -block.bytes);
    device->ops->free(device, p, block.bytes);
    pthread_mutex_unlock(&device->lock);
}

lh_mem_usage lh_device_usage(const lh_device *device)
{
    lh_device *shared = (lh_device *)device; /* only its lock changes */
    pthread_mutex_lock(&shared->lock);
    lh_mem_usage usage = device->usage;
    pthread_mutex_unlock(&shared->lock);
    return usage;
}

void lh_device_reset_peak(lh_device *device)
{
    pthread_mutex_lock(&device->lock);
    lh_mem_usage *usage = &device->usage;
    memcpy(usage->peak, usage->now, sizeof usage->peak);
    usage->peak_total = usage->now_total;
    pthread_mutex_unlock(&device->lock);
}

lh_status lh_stream_open(lh_stream **out, lh_device *device)
{
    lh_status st = LH_OK;
    lh_stream *stream = NULL;
    LH_TRY(lh_calloc(&stream, 1, sizeof *stream));
    stream->device = device;
    LH_TRY(device->ops->stream_open(stream));
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
    lh_device_free(device, stream->scratch);
    lh_device_free(device, stream->counters);
    device->ops->stream_close(stream);
    if (stream->staging) device->ops->free_host(device, stream->staging);
    lh_free(stream);
}

lh_device *lh_stream_device(const lh_stream *stream)
{
    return stream->device;
}

void lh_stream_fail(lh_stream *stream, lh_status st)
{
    if (st == LH_OK || stream->failed != LH_OK) return;
    stream->failed = st;
    snprintf(stream->message, sizeof stream->message, "%s", lh_error_message());
}

void lh_stream_watch(lh_stream *stream, const lh_stream_waiter *waiter)
{
    stream->waiter = waiter ? *waiter : (lh_stream_waiter){0};
}

lh_status lh_stream_sync(lh_stream *stream)
{
    const lh_stream_waiter *w = &stream->waiter;
    if (w->before) w->before(w->self);
    lh_status st = stream->device->ops->stream_sync(stream), failed = stream->failed;
    if (w->behind) w->behind(w->self);
    stream->failed = LH_OK;
    if (failed != LH_OK) LH_FAIL(failed, "%s", stream->message);
done:
    return st;
}

/* The old block goes first: the peak is that of the largest operation, not of two. */
lh_status lh_stream_scratch(lh_stream *stream, void *out, int64_t bytes)
{
    lh_status st = LH_OK;
    if (bytes > stream->scratch_bytes) {
        LH_TRY(lh_stream_sync(stream)); /* what is under way may still use it */
        lh_device_free(stream->device, stream->scratch);
        stream->scratch = NULL;
        stream->scratch_bytes = 0;
        LH_TRY(lh_device_alloc(stream->device, &stream->scratch, bytes, LH_MEM_WORK));
        stream->scratch_bytes = bytes;
    }
    memcpy(out, &stream->scratch, sizeof stream->scratch);
done:
    return st;
}

lh_status lh_stream_counters(lh_stream *stream, uint32_t **out, int64_t count)
{
    lh_status st = LH_OK;
    int64_t bytes = count * (int64_t)sizeof *stream->counters;
    if (count > stream->counter_count) {
        LH_TRY(lh_stream_sync(stream)); /* what is under way may still count */
        lh_device_free(stream->device, stream->counters);
        stream->counters = NULL;
        stream->counter_count = 0;
        LH_TRY(lh_device_alloc(stream->device, &stream->counters, bytes, LH_MEM_WORK));
        stream->counter_count = count;
        LH_TRY(lh_stream_zero(stream, stream->counters, bytes));
    }
    *out = stream->counters;
done:
    return st;
}

lh_status lh_stream_staging(lh_stream *stream, void *out, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_device *device = stream->device;
    if (bytes > stream->staging_bytes) {
        LH_TRY(lh_stream_sync(stream)); /* copies under way may still use it */
        if (stream->staging) device->ops->free_host(device, stream->staging);
        stream->staging_bytes = 0;
        stream->staging = device->ops->alloc_host(device, bytes);
        if (!stream->staging)
            LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB of the host's memory for copies", (double)bytes / (1 << 30));
        stream->staging_bytes = bytes;
    }
    memcpy(out, &stream->staging, sizeof stream->staging);
done:
    return st;
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

lh_status lh_event_open(lh_event **out, lh_device *device)
{
    lh_status st = LH_OK;
    lh_event *event = NULL;
    LH_TRY(lh_calloc(&event, 1, sizeof *event));
    event->device = device;
    LH_TRY(device->ops->event_open(event));
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
