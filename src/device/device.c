/* device.c - devices of all kinds: opening, counted memory by purpose, limits and peaks. */
#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/device_impl.h"

/* Where memory is overcommitted, blocks of this size must also fit into the free memory: Linux kills the process
 * later. */
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

static const char *const count_names[LH_COUNT_KINDS] = {[LH_COUNT_KERNEL] = "kernel",
                                                        [LH_COUNT_GRAPH] = "graph",
                                                        [LH_COUNT_COPY] = "copy",
                                                        [LH_COUNT_COLLECTIVE] = "collective",
                                                        [LH_COUNT_WAIT] = "wait"};

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

/* Recursive: the recording thread holds the lock, and its requests for memory are refused, not blocked. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

lh_status lh_device_open(lh_device **out, const lh_device_choice *choice)
{
    lh_status st = LH_OK;
    lh_device *device = NULL;
    LH_TRY_DONE(lh_calloc(&device, 1, sizeof *device));
    device->ops = choice->counts_only ? &lh_counting_device_ops : kinds[choice->kind].ops;
    device->kind = choice->kind;
    LH_TRY_DONE(device->ops->open(device, choice->index));
    lh_device_set_limit(device, choice->limit_bytes > 0 ? choice->limit_bytes : device->ops->free_bytes(device));
    init_lock(&device->lock);
    *out = device;
    device = NULL;
done:
    lh_free(device);
    return st;
}

void lh_device_set_limit(lh_device *device, int64_t limit_bytes)
{
    device->limit_bytes = limit_bytes;
    if (device->ops->limited) device->ops->limited(device);
}

int64_t lh_device_room(lh_device *device)
{
    return device->limit_bytes - lh_device_usage(device).now_total;
}

void lh_device_close(lh_device *device)
{
    if (!device) return;
    assert(device->blocks_held == 0 && "memory of a device that is closed");
    if (device->ops->close) device->ops->close(device);
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

const char *lh_count_kind_name(lh_count_kind kind)
{
    return count_names[kind];
}

int64_t lh_device_counts(const lh_device *device, const lh_count **counts)
{
    return device->ops == &lh_cuda_device_ops && lh_cuda_counts ? lh_cuda_counts(counts) : -1;
}

int64_t lh_device_driver_peak(const lh_device *device)
{
    return device->ops->driver_peak ? device->ops->driver_peak(device) : 0;
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
    const double gib = 1 << 30;
    int64_t held = device->usage.now_total;
    if (bytes > device->limit_bytes - held)
        LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB for %s: %.3f GiB are held and the limit is %.3f GiB",
                (double)bytes / gib, what_names[what], (double)held / gib, (double)device->limit_bytes / gib);
    if (device->ops->overcommits && bytes >= LARGE_BYTES) {
        int64_t free_bytes = device->ops->free_bytes(device);
        if (bytes > free_bytes)
            LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB for %s: %.3f GiB are held and %.3f GiB are free on the device",
                    (double)bytes / gib, what_names[what], (double)held / gib, (double)free_bytes / gib);
    }
    return LH_OK;
}

static lh_status alloc_locked(lh_device *device, void **out, int64_t bytes, lh_mem what)
{
    if (device->recording)
        LH_FAIL(LH_EINTERNAL, "memory for %s is asked for by work that is only recorded", what_names[what]);
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
    return LH_OK;
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
    return st;
}

void lh_device_free(lh_device *device, void *p)
{
    if (!p) return;
    pthread_mutex_lock(&device->lock);
    int64_t at = block_at(device, p);
    assert(!device->recording && "memory that recorded work frees");
    assert(at < device->blocks_held && device->blocks[at].p == p && "not a block of this device");
    lh_block block = device->blocks[at];
    device->blocks_held--;
    memmove(device->blocks + at, device->blocks + at + 1, (size_t)(device->blocks_held - at) * sizeof *device->blocks);
    count(&device->usage, block.what, -block.bytes);
    if (device->ops->free) device->ops->free(device, p, block.bytes);
    pthread_mutex_unlock(&device->lock);
}

lh_status lh_device_alloc_host(lh_device *device, void *out, int64_t bytes)
{
    void *p = bytes > 0 ? device->ops->alloc_host(device, bytes) : NULL;
    if (bytes > 0 && !p)
        LH_FAIL(LH_ENOMEM, "cannot allocate %.3f GiB of the host's memory for copies", (double)bytes / (1 << 30));
    memcpy(out, &p, sizeof p);
    return LH_OK;
}

void lh_device_free_host(lh_device *device, void *p)
{
    if (p) device->ops->free_host(device, p);
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
