/* CUDA devices. Memory comes from the driver's pool, which keeps freed memory up to the device's limit; blocks are
 * allocated and freed on a separate stream of the device, which waits for all other streams and they for it. A program
 * linked with the CUDA runtime starts without a driver, too; every CUDA call then fails, and no device is found. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "device/cuda.h"
#include "device/device_impl.h"

/* An overlapping copy goes through a block of this size. */
static const int64_t OVERLAP_BYTES = 16 << 20;

typedef struct cuda_device {
    int index, processors, capability, driver;
    int64_t shared; /* bytes that a block may ask for */
    lh_cuda_map_maker maps;
    cudaStream_t home; /* stream on which memory is allocated and freed */
    cudaEvent_t ready; /* orders the home stream and the other streams */
    cudaMemPool_t pool;
    lh_stream *streams; /* all open streams */
} cuda_device;

typedef struct cuda_stream {
    cudaStream_t stream;
    lh_stream *next; /* next stream of the device */
    lh_cuda_kept kept[LH_CUDA_LIBRARIES];
} cuda_stream;

lh_status lh_cuda_check(cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess) return LH_OK;
    (void)cudaGetLastError(); /* clears it: it has been reported */
    LH_FAIL(rc == cudaErrorMemoryAllocation ? LH_ENOMEM : LH_EINTERNAL, "%s failed on the CUDA device: %s (%s)", what,
            cudaGetErrorString(rc), cudaGetErrorName(rc));
}

cudaStream_t lh_stream_cuda(const lh_stream *stream)
{
    return ((const cuda_stream *)stream->impl)->stream;
}

lh_cuda_kept *lh_stream_kept(lh_stream *stream, lh_cuda_library library)
{
    return &((cuda_stream *)stream->impl)->kept[library];
}

int lh_cuda_processors(const lh_stream *stream)
{
    return ((const cuda_device *)stream->device->impl)->processors;
}

int lh_cuda_capability(const lh_stream *stream)
{
    return ((const cuda_device *)stream->device->impl)->capability;
}

int lh_cuda_driver(const lh_stream *stream)
{
    return ((const cuda_device *)stream->device->impl)->driver;
}

lh_cuda_map_maker lh_cuda_maps(const lh_stream *stream)
{
    return ((const cuda_device *)stream->device->impl)->maps;
}

int64_t lh_cuda_shared(const lh_stream *stream)
{
    return ((const cuda_device *)stream->device->impl)->shared;
}

/* ---- finding and opening ---- */

static int describe(const struct cudaDeviceProp *prop, char *out, size_t cap)
{
    return snprintf(out, cap, "%s, sm_%d%d, %.1f GiB", prop->name, prop->major, prop->minor,
                    (double)prop->totalGlobalMem / (1 << 30));
}

static void name_devices(lh_device_found *found)
{
    size_t used = 0;
    for (int i = 0; i < found->count && used < sizeof found->text; i++) {
        struct cudaDeviceProp prop;
        char name[320];
        cudaError_t rc = cudaGetDeviceProperties(&prop, i);
        if (rc == cudaSuccess)
            describe(&prop, name, sizeof name);
        else
            snprintf(name, sizeof name, "device %d: %s", i, cudaGetErrorString(rc));
        int n = snprintf(found->text + used, sizeof found->text - used, "%s%s", i ? "; " : "", name);
        used += n > 0 ? (size_t)n : 0;
    }
}

void lh_cuda_device_find(lh_device_found *found)
{
    int driver = 0, runtime = 0;
    found->count = 0;
    cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        snprintf(found->text, sizeof found->text, "no driver (CUDA runtime %d.%d is there)", runtime / 1000,
                 runtime % 1000 / 10);
        return;
    }
    cudaError_t rc = cudaGetDeviceCount(&found->count);
    if (rc == cudaSuccess && found->count > 0) {
        name_devices(found);
        return;
    }
    found->count = 0;
    snprintf(found->text, sizeof found->text, "no device: %s (driver for CUDA %d.%d, runtime %d.%d)%s",
             rc == cudaSuccess ? "the driver lists none" : cudaGetErrorString(rc), driver / 1000, driver % 1000 / 10,
             runtime / 1000, runtime % 1000 / 10,
             driver / 1000 < runtime / 1000 ? ": the driver is too old for this build, update it" : "");
}

/* Kernels are compiled for compute capability 8.0 and above. */
enum { MIN_MAJOR = 8 };

#if CUDART_VERSION >= 12050
#define ENTRY_POINT(name, out, found) cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, found)
#else
#define ENTRY_POINT(name, out, found) cudaGetDriverEntryPoint(name, out, cudaEnableDefault, found)
#endif

static void find_maps(cuda_device *d)
{
    enum { MIN_CAPABILITY = 90 };
    enum cudaDriverEntryPointQueryResult found;
    void *maker = NULL;
    if (d->capability < MIN_CAPABILITY) return;
    if (ENTRY_POINT("cuTensorMapEncodeTiled", &maker, &found) == cudaSuccess && found == cudaDriverEntryPointSuccess)
        d->maps = (lh_cuda_map_maker)maker;
    (void)cudaGetLastError();
}

/* The driver's threshold counts memory in use, too: from there on each wait of the host unmaps all freed memory, and
 * the next allocation maps it again. */
static void keep_freed_memory(lh_device *device)
{
    const cuda_device *d = device->impl;
    unsigned long long keep = (unsigned long long)lh_max_i64(device->limit_bytes, 0);
    cudaMemPoolSetAttribute(d->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    (void)cudaGetLastError();
}

static void close_cuda(lh_device *device)
{
    cuda_device *d = device->impl;
    if (d->ready) cudaEventDestroy(d->ready);
    if (d->home) {
        cudaStreamSynchronize(d->home);
        cudaStreamDestroy(d->home);
        cudaMemPoolTrimTo(d->pool, 0);
    }
    lh_free(d);
    device->impl = NULL;
}

static lh_status open_cuda(lh_device *device, int index)
{
    lh_status st = LH_OK;
    lh_device_found found = {0};
    struct cudaDeviceProp prop;
    cuda_device *d = NULL;
    lh_cuda_device_find(&found);
    if (found.count == 0)
        LH_FAIL_DONE(LH_EUSAGE, "device 'cuda' cannot be used: %s; %s cpu always works", found.text,
                     lh_setting("device"));
    if (index >= found.count)
        LH_FAIL_DONE(LH_EUSAGE, "there is no CUDA device %d: this host shows %d (%s)", index, found.count, found.text);
    LH_TRY_DONE(lh_cuda_check(cudaGetDeviceProperties(&prop, index), "asking for the device"));
    describe(&prop, device->name, sizeof device->name);
    if (prop.major < MIN_MAJOR)
        LH_FAIL_DONE(LH_EUSAGE, "CUDA device %d (%s) is too old: this build has kernels for sm_%d0 and later", index,
                     device->name, MIN_MAJOR);
    LH_TRY_DONE(lh_calloc(&d, 1, sizeof *d));
    device->impl = d;
    d->index = index;
    d->processors = prop.multiProcessorCount;
    d->capability = prop.major * 10 + prop.minor;
    LH_TRY_DONE(lh_cuda_check(cudaDriverGetVersion(&d->driver), "asking for the driver's version"));
    d->shared = (int64_t)prop.sharedMemPerBlockOptin;
    LH_TRY_DONE(lh_cuda_check(cudaSetDevice(index), "choosing the device"));
    LH_TRY_DONE(
        lh_cuda_check(cudaDeviceGetPCIBusId(device->bus, sizeof device->bus, index), "asking for the device's bus"));
    LH_TRY_DONE(lh_cuda_check(cudaStreamCreateWithFlags(&d->home, cudaStreamNonBlocking), "making a stream"));
    LH_TRY_DONE(lh_cuda_check(cudaEventCreateWithFlags(&d->ready, cudaEventDisableTiming), "making an event"));
    LH_TRY_DONE(lh_cuda_check(cudaDeviceGetDefaultMemPool(&d->pool, index), "finding the memory pool"));
    find_maps(d);
done:
    if (st != LH_OK && device->impl) close_cuda(device);
    return st;
}

/* ---- memory ---- */

/* `second` continues when all work enqueued on `first` is done. */
static cudaError_t order(cuda_device *d, cudaStream_t first, cudaStream_t second)
{
    cudaError_t rc = cudaEventRecord(d->ready, first);
    return rc == cudaSuccess ? cudaStreamWaitEvent(second, d->ready, 0) : rc;
}

static void alloc_cuda(lh_device *device, void **out, int64_t bytes)
{
    cuda_device *d = device->impl;
    cudaError_t rc = cudaMallocAsync(out, (size_t)bytes, d->home);
    if (rc ==
        cudaErrorMemoryAllocation) { /* return idle memory to the driver, and wait for memory that is being freed */
        (void)cudaGetLastError();
        cudaStreamSynchronize(d->home);
        cudaMemPoolTrimTo(d->pool, 0);
        rc = cudaMallocAsync(out, (size_t)bytes, d->home);
    }
    if (rc != cudaSuccess) {
        (void)cudaGetLastError();
        *out = NULL;
        return;
    }
    if (d->streams) rc = cudaEventRecord(d->ready, d->home);
    for (lh_stream *s = d->streams; s && rc == cudaSuccess; s = ((cuda_stream *)s->impl)->next)
        rc = cudaStreamWaitEvent(lh_stream_cuda(s), d->ready, 0);
    if (rc != cudaSuccess) cudaStreamSynchronize(d->home); /* the other order: the host waits */
}

static void free_cuda(lh_device *device, void *p, int64_t bytes)
{
    cuda_device *d = device->impl;
    (void)bytes;
    for (lh_stream *s = d->streams; s; s = ((cuda_stream *)s->impl)->next) order(d, lh_stream_cuda(s), d->home);
    cudaFreeAsync(p, d->home);
}

/* Free memory of the driver, and memory that the pool holds unused. */
static int64_t free_bytes_cuda(const lh_device *device)
{
    const cuda_device *d = device->impl;
    size_t free_bytes = 0, total = 0;
    unsigned long long reserved = 0;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return 0;
    if (cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, &reserved) != cudaSuccess) reserved = 0;
    int64_t idle = (int64_t)reserved - device->usage.now_total;
    return (int64_t)free_bytes + (idle > 0 ? idle : 0);
}

/* The use outside the pool is known only for now; the program's share of it hardly changes once it computes. */
static int64_t driver_peak_cuda(const lh_device *device)
{
    const cuda_device *d = device->impl;
    size_t free_bytes = 0, total = 0;
    unsigned long long reserved = 0, most = 0;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess ||
        cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, &reserved) != cudaSuccess ||
        cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemHigh, &most) != cudaSuccess)
        return 0;
    return (int64_t)(total - free_bytes - reserved + most);
}

static void *alloc_host(lh_device *device, int64_t bytes)
{
    void *p = NULL;
    (void)device;
    if (cudaMallocHost(&p, (size_t)bytes) == cudaSuccess) return p;
    (void)cudaGetLastError();
    return NULL;
}

static void free_host(lh_device *device, void *p)
{
    (void)device;
    cudaFreeHost(p);
}

/* ---- streams ---- */

static lh_status open_stream(lh_stream *stream)
{
    lh_status st = LH_OK;
    cuda_device *d = stream->device->impl;
    cuda_stream *s = NULL;
    LH_TRY_DONE(lh_calloc(&s, 1, sizeof *s));
    LH_TRY_DONE(lh_cuda_check(cudaSetDevice(d->index), "choosing the device"));
    LH_TRY_DONE(lh_cuda_check(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "making a stream"));
    s->next = d->streams;
    d->streams = stream;
    stream->impl = s;
    order(d, d->home, s->stream);
    s = NULL;
done:
    lh_free(s);
    return st;
}

static void close_stream(lh_stream *stream)
{
    cuda_device *d = stream->device->impl;
    cuda_stream *s = stream->impl;
    lh_stream **at = &d->streams;
    while (*at != stream) at = &((cuda_stream *)(*at)->impl)->next;
    *at = s->next;
    cudaStreamSynchronize(s->stream);
    for (int i = 0; i < LH_CUDA_LIBRARIES; i++)
        if (s->kept[i].what) s->kept[i].close(s->kept[i].what);
    cudaStreamDestroy(s->stream);
    lh_free(s);
}

/* A busy wait that calls the waiter's hook. cudaStreamSynchronize does not sleep either: a step would end later. */
static lh_status wait_and_ask(lh_stream *stream)
{
    enum { ASK_EVERY = 4096 }; /* some milliseconds */
    const lh_stream_waiter *w = &stream->waiter;
    cudaStream_t on = lh_stream_cuda(stream);
    cudaError_t rc;
    for (int64_t turn = 0; (rc = cudaStreamQuery(on)) == cudaErrorNotReady; turn++) {
        (void)cudaGetLastError();
        if (turn % ASK_EVERY == 0) LH_TRY(w->during(w->self));
        sched_yield();
    }
    LH_TRY(lh_cuda_check(rc, "work that was under way"));
    return LH_OK;
}

static lh_status sync_stream(lh_stream *stream)
{
    if (stream->waiter.during) return wait_and_ask(stream);
    return lh_cuda_check(cudaStreamSynchronize(lh_stream_cuda(stream)), "work that was under way");
}

static lh_status order_streams(lh_stream *stream, lh_stream *first)
{
    return lh_cuda_check(order(stream->device->impl, lh_stream_cuda(first), lh_stream_cuda(stream)),
                         "ordering two streams");
}

static lh_status copy_apart(lh_stream *stream, void *dst, const void *src, int64_t bytes)
{
    return lh_cuda_check(cudaMemcpyAsync(dst, src, (size_t)bytes, cudaMemcpyDeviceToDevice, lh_stream_cuda(stream)),
                         "a copy");
}

/* Piece by piece through a separate block, from the end that is not overwritten before it is read. */
static lh_status copy_overlapping(lh_stream *stream, char *dst, const char *src, int64_t bytes)
{
    lh_status st = LH_OK;
    int64_t piece = bytes < OVERLAP_BYTES ? bytes : OVERLAP_BYTES;
    cudaStream_t on = lh_stream_cuda(stream);
    void *between = NULL;
    LH_TRY_DONE(lh_cuda_check(cudaMallocAsync(&between, (size_t)piece, on), "room for a copy"));
    for (int64_t done = 0; done < bytes; done += piece) {
        int64_t n = bytes - done < piece ? bytes - done : piece, at = dst < src ? done : bytes - done - n;
        LH_TRY_DONE(copy_apart(stream, between, src + at, n));
        LH_TRY_DONE(copy_apart(stream, dst + at, between, n));
    }
done:
    if (between) cudaFreeAsync(between, on);
    return st;
}

static lh_status copy_bytes(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    static const enum cudaMemcpyKind kinds[] = {[LH_COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [LH_COPY_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [LH_COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice};
    const char *a = dst, *b = src;
    if (way == LH_COPY_ON_DEVICE) {
        if (a == b) return LH_OK;
        if (a < b + bytes && b < a + bytes) return copy_overlapping(stream, dst, src, bytes);
    }
    return lh_cuda_check(cudaMemcpyAsync(dst, src, (size_t)bytes, kinds[way], lh_stream_cuda(stream)), "a copy");
}

static lh_status zero_bytes(lh_stream *stream, void *dst, int64_t bytes)
{
    return lh_cuda_check(cudaMemsetAsync(dst, 0, (size_t)bytes, lh_stream_cuda(stream)), "clearing memory");
}

/* ---- CUDA graphs ---- */

/* Other threads, such as a library's, are not restricted. */
static lh_status begin_recording(lh_stream *stream)
{
    return lh_cuda_check(cudaStreamBeginCapture(lh_stream_cuda(stream), cudaStreamCaptureModeThreadLocal),
                         "recording work");
}

static lh_status end_recording(lh_graph *graph)
{
    lh_status st = LH_OK;
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t exec = NULL;
    size_t nodes = 0;
    LH_TRY_DONE(lh_cuda_check(cudaStreamEndCapture(lh_stream_cuda(graph->stream), &recorded), "recording work"));
    LH_TRY_DONE(lh_cuda_check(cudaGraphGetNodes(recorded, NULL, &nodes), "counting recorded work"));
    LH_TRY_DONE(lh_cuda_check(cudaGraphInstantiate(&exec, recorded, 0), "preparing recorded work"));
    graph->impl = exec;
    graph->nodes = (int64_t)nodes;
done:
    if (recorded) cudaGraphDestroy(recorded);
    return st;
}

static lh_status run_graph(lh_graph *graph)
{
    return lh_cuda_check(cudaGraphLaunch(graph->impl, lh_stream_cuda(graph->stream)), "launch of recorded work");
}

static void close_graph(lh_graph *graph)
{
    cudaGraphExecDestroy(graph->impl);
}

/* ---- events ---- */

static lh_status open_event(lh_event *event)
{
    cudaEvent_t e = NULL;
    lh_status st = lh_cuda_check(cudaEventCreateWithFlags(&e, cudaEventDefault), "making an event");
    event->impl = e;
    return st;
}

static void close_event(lh_event *event)
{
    cudaEventDestroy(event->impl);
}

static lh_status record_event(lh_event *event, lh_stream *stream)
{
    return lh_cuda_check(cudaEventRecord(event->impl, lh_stream_cuda(stream)), "recording an event");
}

static lh_status seconds_between(lh_event *first, lh_event *last, double *seconds)
{
    float ms = 0;
    LH_TRY(lh_cuda_check(cudaEventSynchronize(last->impl), "waiting for an event"));
    LH_TRY(lh_cuda_check(cudaEventElapsedTime(&ms, first->impl, last->impl), "reading an event"));
    *seconds = (double)ms * 1e-3;
    return LH_OK;
}

const lh_device_ops lh_cuda_device_ops = {
    .open = open_cuda,
    .close = close_cuda,
    .limited = keep_freed_memory,
    .alloc = alloc_cuda,
    .free = free_cuda,
    .free_bytes = free_bytes_cuda,
    .driver_peak = driver_peak_cuda,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .stream_open = open_stream,
    .stream_close = close_stream,
    .stream_sync = sync_stream,
    .stream_after = order_streams,
    .copy = copy_bytes,
    .zero = zero_bytes,
    .record = begin_recording,
    .recorded = end_recording,
    .graph_run = run_graph,
    .graph_close = close_graph,
    .event_open = open_event,
    .event_close = close_event,
    .event_record = record_event,
    .event_seconds = seconds_between,
};
