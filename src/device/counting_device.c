/* A device that only counts: blocks of memory have an address and a size and no contents, copies move nothing, and
 * every operation returns immediately (lh_ops_counting). A run allocates on it the bytes that it would allocate on a
 * device of the same kind: forecasts of memory run the real code here. Copies to the host leave the host's memory
 * unchanged. */
#include <stdlib.h>

#include "device/device_impl.h"

enum { ALIGN = 64 };

static lh_status open_counting(lh_device *device, int index)
{
    (void)device, (void)index;
    return LH_OK;
}

/* Addresses grow; none is used twice. */
static void alloc_counting(lh_device *device, void **out, int64_t bytes)
{
    char *last = device->impl;
    *out = last + ALIGN;
    device->impl = last + ALIGN + (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t free_bytes_counting(const lh_device *device)
{
    (void)device;
    return INT64_MAX;
}

static void *alloc_host(lh_device *device, int64_t bytes)
{
    (void)device;
    return calloc((size_t)(bytes + ALIGN - 1) / ALIGN, ALIGN);
}

static void free_host(lh_device *device, void *p)
{
    (void)device;
    free(p);
}

static lh_status copy_nothing(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way)
{
    (void)stream, (void)dst, (void)src, (void)bytes, (void)way;
    return LH_OK;
}

static lh_status zero_nothing(lh_stream *stream, void *dst, int64_t bytes)
{
    (void)stream, (void)dst, (void)bytes;
    return LH_OK;
}

const lh_device_ops lh_counting_device_ops = {
    .open = open_counting,
    .alloc = alloc_counting,
    .free_bytes = free_bytes_counting,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .copy = copy_nothing,
    .zero = zero_nothing,
};
