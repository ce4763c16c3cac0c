/* Devices, memory, streams, events and graphs of the emulation. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "simt.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, bytes) __asan_poison_memory_region(p, bytes)
#define UNPOISON(p, bytes) __asan_unpoison_memory_region(p, bytes)
#else
#define POISON(p, bytes) ((void)0)
#define UNPOISON(p, bytes) ((void)0)
#endif

typedef std::function<void()> work;

/* What is captured, and whether it waits for nothing. */
struct nodes {
    int64_t capture; /* the how many-th of this process, from 1 on */
    std::vector<work> all;
    bool now;
};
struct simt_stream {
    std::deque<work> queue;
    nodes *captured; /* NULL: not capturing */
    bool busy;       /* with work that the host has not waited for */
    int64_t chain;   /* of the last work if it was a kernel (simt_count_begins); 0: an early kernel waits for it */
};
/* A record of an event. Who waits for it waits for this one, whatever becomes of the event. */
struct moment {
    simt_stream *stream;
    int64_t capture; /* in which it was recorded; 0: none */
    bool done;
    double ms;
};
struct simt_event {
    std::shared_ptr<moment> last; /* NULL: never recorded */
};
struct simt_graph {
    nodes held;
};
struct simt_graph_exec {
    nodes held;
};
struct simt_pool {
    char nothing;
};

extern "C" void simt_open_memory(void);
extern "C" void simt_close_memory(void);
extern "C" int simt_capture_call(cudaStream_t stream, void (*call)(void *self, const void *args), void *self,
                                 const void *args, size_t bytes);

namespace
{

const size_t ALIGN = 512, GUARD = 512, HUGE_PAGE = 2 << 20, SPARSE = 256 << 20;

cudaError_t last;
int current;
int64_t captures;
simt_pool pool;
std::map<char *, size_t> pinned;

cudaError_t keep(cudaError_t rc)
{
    if (rc != cudaSuccess) last = rc;
    return rc;
}

size_t number_from(const char *name, size_t otherwise)
{
    const char *value = getenv(name);
    return value ? strtoull(value, nullptr, 10) : otherwise;
}

/* ---- device memory: one range of addresses, first fit ---- */

struct arena {
    char *base;
    size_t bytes, used, of_libraries;
    size_t reserved, reserved_high, threshold; /* of the pool, in use included */
    int opened;
    std::map<char *, size_t> blocks;
} memory;

void make_arena()
{
    if (memory.base) return;
    memory.bytes = number_from("LONGHAUL_SIMT_MEMORY", (size_t)1 << 30);
    size_t range = 2 * memory.bytes + 2 * HUGE_PAGE; /* room for guards and gaps */
    void *p = mmap(nullptr, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) simt_fault("no addresses for device memory");
    memory.base = (char *)(((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    simt_count_memory(memory.base, range - HUGE_PAGE);
    madvise(memory.base, range - HUGE_PAGE, MADV_HUGEPAGE); /* the fence moves at every piece of work: few pages */
}

/* Device memory can be touched while this is there. */
struct open_fence {
    open_fence()
    {
        simt_open_memory();
    }
    ~open_fence()
    {
        simt_close_memory();
    }
    static void protect(int how)
    {
        if (memory.blocks.empty()) return;
        char *end = memory.blocks.rbegin()->first + memory.blocks.rbegin()->second + GUARD;
        size_t bytes = ((size_t)(end - memory.base) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        mprotect(memory.base, bytes, how);
    }
};

/* Whether bytes [p, p + bytes) lie in one block. */
bool is_device(const void *p, size_t bytes)
{
    auto after = memory.blocks.upper_bound((char *)p);
    if (after == memory.blocks.begin()) return false;
    --after;
    return (char *)p + bytes <= after->first + after->second;
}

bool is_pinned(const void *p, size_t bytes)
{
    auto after = pinned.upper_bound((char *)p);
    if (after == pinned.begin()) return false;
    --after;
    return (char *)p + bytes <= after->first + after->second;
}

char *take(size_t bytes)
{
    make_arena();
    if (memory.used + memory.of_libraries + bytes > memory.bytes) return nullptr;
    char *at = memory.base + GUARD;
    for (auto &b : memory.blocks) {
        if ((size_t)(b.first - at) >= bytes + GUARD && b.first > at) break;
        at = b.first + (b.second + ALIGN - 1) / ALIGN * ALIGN + GUARD;
    }
    if (at + bytes + GUARD > memory.base + 2 * memory.bytes) return nullptr;
    memory.blocks[at] = bytes;
    memory.used += bytes;
    memory.reserved = std::max(memory.reserved, memory.used);
    memory.reserved_high = std::max(memory.reserved_high, memory.reserved);
    open_fence open;
    open_fence::protect(PROT_READ | PROT_WRITE);
    POISON(at - GUARD, GUARD);
    POISON(at + bytes, (ALIGN - bytes % ALIGN) % ALIGN + GUARD);
    UNPOISON(at, bytes);
    if (bytes < SPARSE) {
        memset(at, 0xff, bytes); /* so that what nobody wrote is seen */
    } else {                     /* zeros that take no memory: large pools of which little is touched */
        char *whole = (char *)(((uintptr_t)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
        madvise(whole, (size_t)(at + bytes - whole) / HUGE_PAGE * HUGE_PAGE, MADV_DONTNEED);
    }
    return at;
}

void give_back(char *p)
{
    auto block = memory.blocks.find(p);
    if (block == memory.blocks.end()) simt_fault("memory is freed that is not a block");
    open_fence open;
    POISON(p, block->second);
    memory.used -= block->second;
    memory.blocks.erase(block);
}

/* The pool returns unused memory to the driver. */
void trim_pool(size_t to)
{
    memory.reserved = std::min(memory.reserved, std::max(memory.used, to));
}

/* ---- streams ---- */

std::set<simt_stream *> streams;

cudaError_t append(simt_stream *s, work w)
{
    if (!s) simt_fault("work on the default stream");
    if (s->captured)
        s->captured->all.push_back(w);
    else
        s->queue.push_back(w);
    return cudaSuccess;
}

/* Work that takes time. */
cudaError_t enqueue(simt_stream *s, work w)
{
    cudaError_t rc = append(s, w);
    s->busy |= !s->captured;
    return rc;
}

/* The stream of the work that begins, and the chain of the work before it. */
simt_stream *at_work;
int64_t chain_before;

void run_next(simt_stream *s)
{
    work w = s->queue.front();
    s->queue.pop_front();
    open_fence open;
    at_work = s;
    chain_before = s->chain;
    s->chain = 0;
    w();
}

/* Appends work that is no order between kernels: a captured graph has no node for it. */
cudaError_t append_between(simt_stream *s, work w)
{
    return append(s, [w] {
        at_work->chain = chain_before;
        w();
    });
}

void drain(simt_stream *s)
{
    while (!s->queue.empty()) run_next(s);
}

/* By the host. */
void wait_for_all(simt_stream *s, const char *name)
{
    drain(s);
    if (s->busy) simt_count(LH_COUNT_WAIT, name, 0, 0);
    s->busy = false;
}

double now_ms()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Does the work of a stream up to the record. */
void wait_for(const std::shared_ptr<moment> &m)
{
    while (m && !m->done) {
        if (m->stream->queue.empty()) simt_fault("a wait for an event of a stream that is not there any more");
        run_next(m->stream);
    }
}

} // namespace

void simt_open_memory(void)
{
    if (memory.base && memory.opened++ == 0) open_fence::protect(PROT_READ | PROT_WRITE);
}

void simt_close_memory(void)
{
    if (memory.base && --memory.opened == 0) open_fence::protect(PROT_NONE);
}

int simt_capture_call(cudaStream_t stream, void (*call)(void *self, const void *args), void *self, const void *args,
                      size_t bytes)
{
    if (!stream->captured) return 0;
    auto held = std::make_shared<std::vector<char>>((const char *)args, (const char *)args + bytes);
    enqueue(stream, [=] { call(self, held->data()); });
    return 1;
}

void simt_enqueue(cudaStream_t stream, work w)
{
    enqueue(stream, [w] {
        at_work->chain = simt_count_begins("a library", 0);
        w();
    });
}

void simt_drain(void)
{
    for (simt_stream *s : streams) drain(s);
}

void simt_library(int begins)
{
    size_t bytes = number_from("LONGHAUL_SIMT_LIBRARY", 0);
    memory.of_libraries = begins ? memory.of_libraries + bytes : memory.of_libraries - bytes;
}

void simt_enqueue_now(cudaStream_t stream, work w)
{
    simt_enqueue(stream, w);
    if (stream->captured)
        stream->captured->now = true;
    else
        drain(stream);
}

int64_t simt_capture_of(cudaStream_t stream)
{
    return stream->captured ? stream->captured->capture : 0;
}

/* ---- errors and devices ---- */

const char *cudaGetErrorName(cudaError_t rc)
{
    switch (rc) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    }
    return "unknown";
}
const char *cudaGetErrorString(cudaError_t rc)
{
    return cudaGetErrorName(rc);
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t rc = last;
    last = cudaSuccess;
    return rc;
}
cudaError_t cudaPeekAtLastError(void)
{
    return last;
}
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)number_from("LONGHAUL_SIMT_DEVICES", 4);
    return *count ? cudaSuccess : keep(cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    int count;
    cudaGetDeviceCount(&count);
    if (device < 0 || device >= count) return keep(cudaErrorInvalidDevice);
    make_arena();
    *prop = cudaDeviceProp{};
    snprintf(prop->name, sizeof prop->name, "emulated device %d", device);
    const int capability = (int)number_from("LONGHAUL_SIMT_CAPABILITY", 90);
    prop->major = capability / 10;
    prop->minor = capability % 10;
    prop->multiProcessorCount = 4;
    prop->totalGlobalMem = memory.bytes;
    prop->sharedMemPerBlock = 48 << 10;
    prop->sharedMemPerBlockOptin = simt_shared_most();
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    int count;
    cudaGetDeviceCount(&count);
    if (device < 0 || device >= count) return keep(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    make_arena();
    const size_t taken = memory.reserved + memory.of_libraries;
    *free_bytes = taken < memory.bytes ? memory.bytes - taken : 0;
    *total_bytes = memory.bytes;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : (int)simt_shared_most();
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", device);
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new simt_stream();
    streams.insert(*out);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain(stream);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->captured) return keep(cudaErrorStreamCaptureUnsupported);
    wait_for_all(stream, "stream");
    trim_pool(memory.threshold);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!stream->queue.empty()) run_next(stream);
    if (!stream->queue.empty()) return keep(cudaErrorNotReady);
    wait_for_all(stream, "stream");
    return cudaSuccess;
}
/* A stream that waits for what is captured would become part of the capture. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    std::shared_ptr<moment> m = event->last;
    if (!m || m->stream == stream) return cudaSuccess;
    if (m->capture || stream->captured) simt_fault("an event between a stream that is captured and one that is not");
    if (m->done) return cudaSuccess;
    return append_between(stream, [m] { wait_for(m); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new simt_event();
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    auto m = std::make_shared<moment>(moment{stream, simt_capture_of(stream), false, 0});
    event->last = m;
    return append_between(stream, [m] {
        m->ms = now_ms();
        m->done = true;
    });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event->last && !event->last->done) simt_count(LH_COUNT_WAIT, "event", 0, 0);
    wait_for(event->last);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return cudaEventSynchronize(event);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t first, cudaEvent_t last_one)
{
    if (!first->last || !last_one->last || !first->last->done || !last_one->last->done) return keep(cudaErrorNotReady);
    *ms = (float)(last_one->last->ms - first->last->ms);
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    if (stream->captured) return keep(cudaErrorStreamCaptureUnsupported);
    *out = take(bytes);
    return *out ? cudaSuccess : keep(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    return append_between(stream, [p] { give_back((char *)p); });
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    *out = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!*out) return keep(cudaErrorMemoryAllocation);
    pinned[(char *)*out] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p)
{
    pinned.erase((char *)p);
    free(p);
    return cudaSuccess;
}

/* A copy that is done counts: its name, and the bytes of device memory. */
static void copy_now(const char *name, void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
    simt_count(LH_COUNT_COPY, name, is_device(src, bytes) ? bytes : 0, is_device(dst, bytes) ? bytes : 0);
}

static cudaError_t copy_from_host(void *dst, const void *src, size_t bytes, cudaStream_t stream)
{
    if (!is_device(dst, bytes) || is_device(src, 1)) return keep(cudaErrorInvalidValue);
    if (!is_pinned(src, bytes) && stream->captured) return keep(cudaErrorStreamCaptureUnsupported);
    return enqueue(stream, [=] { copy_now("to device", dst, src, bytes); });
}

static cudaError_t copy_to_host(void *dst, const void *src, size_t bytes, cudaStream_t stream)
{
    if (!is_device(src, bytes) || is_device(dst, 1)) return keep(cudaErrorInvalidValue);
    if (!is_pinned(dst, bytes) && stream->captured) return keep(cudaErrorStreamCaptureUnsupported);
    enqueue(stream, [=] { copy_now("to host", dst, src, bytes); });
    if (!is_pinned(dst, bytes)) wait_for_all(stream, "pageable copy");
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    if (kind == cudaMemcpyHostToDevice) return copy_from_host(dst, src, bytes, stream);
    if (kind == cudaMemcpyDeviceToHost) return copy_to_host(dst, src, bytes, stream);
    if (!is_device(dst, bytes) || !is_device(src, bytes)) return keep(cudaErrorInvalidValue);
    const char *a = (const char *)dst, *b = (const char *)src;
    if (a < b + bytes && b < a + bytes && a != b) simt_fault("the two blocks of a copy overlap");
    return enqueue(stream, [=] { copy_now("on device", dst, src, bytes); });
}
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
    if (!is_device(dst, bytes)) return keep(cudaErrorInvalidValue);
    return enqueue(stream, [=] {
        memset(dst, byte, bytes);
        simt_count(LH_COUNT_COPY, "fill", 0, bytes);
    });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int)
{
    *out = &pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value)
{
    unsigned long long bytes;
    if (attribute != cudaMemPoolAttrReleaseThreshold) return keep(cudaErrorInvalidValue);
    memcpy(&bytes, value, sizeof bytes);
    memory.threshold = bytes;
    return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value)
{
    const unsigned long long bytes = attribute == cudaMemPoolAttrReservedMemHigh      ? memory.reserved_high
                                     : attribute == cudaMemPoolAttrReservedMemCurrent ? memory.reserved
                                                                                      : memory.used;
    memcpy(value, &bytes, sizeof bytes);
    return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t bytes)
{
    trim_pool(bytes);
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    if (stream->captured) return keep(cudaErrorStreamCaptureUnsupported);
    stream->captured = new nodes();
    stream->captured->capture = ++captures;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    if (!stream->captured) return keep(cudaErrorInvalidValue);
    *out = new simt_graph{*stream->captured};
    delete stream->captured;
    stream->captured = nullptr;
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count)
{
    *count = graph->held.all.size();
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    if (!number_from("LONGHAUL_SIMT_GRAPHS", 1)) return keep(cudaErrorStreamCaptureUnsupported);
    *out = new simt_graph_exec{graph->held};
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    enqueue(stream, [] { simt_count(LH_COUNT_GRAPH, "replay", 0, 0); });
    for (const work &w : exec->held.all) append(stream, w);
    if (exec->held.now) drain(stream);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

/* ---- launches ---- */

size_t simt_shared_most(void)
{
    return number_from("LONGHAUL_SIMT_SHARED", 227 << 10);
}

cudaError_t simt_allow_shared(int bytes)
{
    const size_t of_statics = 2 << 10; /* more than any kernel has */
    return (size_t)bytes + of_statics <= simt_shared_most() ? cudaSuccess : keep(cudaErrorInvalidValue);
}

cudaError_t simt_launch(cudaStream_t stream, const char *name, const simt_shape &shape, std::function<void()> body)
{
    if (simt_allow_shared((int)shape.shared_bytes) != cudaSuccess) return cudaErrorInvalidValue;
    return enqueue(stream, [name, shape, body] {
        at_work->chain = simt_count_begins(name, shape.is_early ? chain_before : 0);
        simt_run(shape, body);
        simt_count_kernel(name);
    });
}
