/* The processors and memory of the host. A stream does its work before the call returns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/device_impl.h"

/* From this size on a block is a mapping, not malloc's: malloc keeps freed memory (its limit for mappings grows to 32
 * MiB as blocks are freed), and the peak of a run must not stay allocated. */
static const int64_t MAPPED_BYTES = 256 << 10;

/* Mappings of at least one huge page start on one. */
static const int64_t HUGE_BYTES = 2 << 20;

static lh_status open_cpu(lh_device *device, int index)
{
    lh_device_found found = {0};
    (void)index;
    lh_cpu_device_find(&found);
    snprintf(device->name, sizeof device->name, "%s", found.text);
    return LH_OK;
}

static int64_t mapped_bytes(int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static void alloc_cpu(lh_device *device, void **out, int64_t bytes)
{
    (void)device;
    *out = NULL;
    if (bytes < MAPPED_BYTES) {
        if (posix_memalign(out, 64, (size_t)bytes) != 0) *out = NULL;
        return;
    }
    /* Maps one huge page more than needed and unmaps the parts before and after the aligned block. */
    int64_t keep = mapped_bytes(bytes), more = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    char *p = mmap(NULL, (size_t)(keep + more), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    if (more) {
        int64_t before = (int64_t)((HUGE_BYTES - (uintptr_t)p % (uintptr_t)HUGE_BYTES) % (uintptr_t)HUGE_BYTES);
        if (before) munmap(p, (size_t)before);
        if (more - before) munmap(p + before + keep, (size_t)(more - before));
        p += before;
        madvise(p, (size_t)keep, MADV_HUGEPAGE); /* a kernel without huge pages refuses; nothing is lost */
    }
    *out = p;
}

static void free_cpu(lh_device *device, void *p, int64_t bytes)
{
    (void)device;
    if (bytes < MAPPED_BYTES)
        free(p);
    else
        munmap(p, (size_t)mapped_bytes(bytes));
}

static int64_t free_bytes_cpu(const lh_device *device)
{
    (void)device;
    return lh_machine_free_bytes("");
}

static void *alloc_host(lh_device *device, int64_t bytes)
{
    void *p = NULL;
    (void)device;
    return posix_memalign(&p, 64, (size_t)bytes) == 0 ? p : NULL;
}

static void free_host(lh_device *device, void *p)
{
    (void)device;
    free(p);
}

static lh_status copy_bytes(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    (void)stream, (void)way;
    memmove(dst, src, (size_t)bytes);
    return LH_OK;
}

static lh_status zero_bytes(lh_stream *stream, void *dst, int64_t bytes)
{
    (void)stream;
    memset(dst, 0, (size_t)bytes);
    return LH_OK;
}

static lh_status open_event(lh_event *event)
{
    (void)event;
    return LH_OK;
}

static void close_event(lh_event *event)
{
    (void)event;
}

static lh_status record_event(lh_event *event, lh_stream *stream)
{
    struct timespec now;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return LH_OK;
}

static lh_status seconds_between(lh_event *first, lh_event *last, double *seconds)
{
    *seconds = (double)(last->time_ns - first->time_ns) * 1e-9;
    return LH_OK;
}

void lh_cpu_device_find(lh_device_found *found)
{
    char name[96];
    int cores = lh_machine_cores();
    lh_machine_cpu_name("", name, sizeof name);
    found->count = 1;
    snprintf(found->text, sizeof found->text, "%s, %d core%s", name, cores, cores == 1 ? "" : "s");
}

const lh_device_ops lh_cpu_device_ops = {
    .overcommits = 1,
    .open = open_cpu,
    .alloc = alloc_cpu,
    .free = free_cpu,
    .free_bytes = free_bytes_cpu,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .copy = copy_bytes,
    .zero = zero_bytes,
    .event_open = open_event,
    .event_close = close_event,
    .event_record = record_event,
    .event_seconds = seconds_between,
};
