/* device_impl.h - the interface of a kind of device. device.c counts the memory and keeps the errors; a kind only moves
 * bytes. A new kind is one table of operations and one entry in device.c. */
#ifndef LH_DEVICE_DEVICE_IMPL_H
#define LH_DEVICE_DEVICE_IMPL_H

#include <pthread.h>

#include "device/counts.h"

typedef struct lh_device_ops {
    /* Device `index` of its kind on this host. Fills lh_device.name and bus; fails when it cannot be used. */
    lh_status (*open)(lh_device *device, int index);
    void (*close)(lh_device *device);   /* NULL, here and below: nothing to do */
    void (*limited)(lh_device *device); /* device->limit_bytes was set */

    /* *out: `bytes` > 0 bytes aligned to 64, or NULL if memory is exhausted. free gets the same size. */
    void (*alloc)(lh_device *device, void **out, int64_t bytes);
    void (*free)(lh_device *device, void *p, int64_t bytes);
    int overcommits; /* true if alloc may return memory that is not there */
    int64_t (*free_bytes)(const lh_device *device);
    int64_t (*driver_peak)(const lh_device *device);

    /* Memory of the host for copies, aligned to 64, or NULL. */
    void *(*alloc_host)(lh_device *device, int64_t bytes);
    void (*free_host)(lh_device *device, void *p);

    lh_status (*stream_open)(lh_stream *stream);
    void (*stream_close)(lh_stream *stream);
    lh_status (*stream_sync)(lh_stream *stream);
    lh_status (*stream_after)(lh_stream *stream, lh_stream *first); /* called with the device's lock held */
    lh_status (*copy)(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way);
    lh_status (*zero)(lh_stream *stream, void *dst, int64_t bytes);

    /* All NULL: the device cannot capture. */
    lh_status (*record)(lh_stream *stream);
    lh_status (*recorded)(lh_graph *graph); /* fills impl and nodes */
    lh_status (*graph_run)(lh_graph *graph);
    void (*graph_close)(lh_graph *graph);

    lh_status (*event_open)(lh_event *event);
    void (*event_close)(lh_event *event);
    lh_status (*event_record)(lh_event *event, lh_stream *stream);
    lh_status (*event_seconds)(lh_event *first, lh_event *last, double *seconds);
} lh_device_ops;

typedef struct lh_block {
    void *p;
    int64_t bytes;
    lh_mem what;
} lh_block;

struct lh_device {
    const lh_device_ops *ops;
    lh_device_kind kind;
    char name[512];
    char bus[32]; /* address of the device on its host; "" for the host itself */
    void *impl;   /* data of the kind */
    int64_t limit_bytes;
    /* Recursive. Guards the fields below, and streams that open, close or wait for another stream. A thread holds
     * it while it captures: allocations of other threads are ordered with all streams, and a capturing stream
     * cannot be. */
    pthread_mutex_t lock;
    int recording;    /* capturing streams of the thread that holds the lock */
    lh_block *blocks; /* ordered by address */
    int64_t blocks_held, blocks_cap;
    lh_mem_usage usage;
};

/* Workspace of a stream's operations. Graphs captured with it share it: the last user frees it. */
typedef struct lh_workspace {
    void *p;
    int64_t bytes;
    int users;
} lh_workspace;

struct lh_stream {
    lh_device *device;
    lh_status failed; /* latched */
    char message[2048];
    lh_workspace *scratch,
        *counters; /* workspace of lh_stream_scratch and lh_stream_counters; NULL: not allocated yet */
    void *staging; /* host memory of lh_stream_staging */
    int64_t staging_bytes;
    char *post; /* host memory of lh_stream_put: data put since the last sync */
    int64_t posted;
    int recording;
    lh_stream_waiter waiter;
    void *impl; /* data of the kind */
};

struct lh_graph {
    lh_stream *stream;
    lh_workspace *scratch, *counters; /* workspace of the stream when it was captured */
    int64_t nodes;
    void *impl; /* data of the kind */
};

struct lh_event {
    lh_device *device;
    int recorded;
    int64_t time_ns; /* cpu: on the monotonic clock */
    void *impl;      /* data of the kind */
};

extern const lh_device_ops lh_cpu_device_ops, lh_cuda_device_ops, lh_counting_device_ops;
void lh_cpu_device_find(lh_device_found *found);
void lh_cuda_device_find(lh_device_found *found);

/* lh_device_counts of the emulated CUDA runtime; at NULL with the real one. */
int64_t lh_cuda_counts(const lh_count **counts) __attribute__((weak));

/* machine.c, with every path below `root` ("" for the machine itself; tests make a tree of files). */

/* Bytes of memory that a process here can still allocate: the kernel's MemAvailable, or less if a cgroup (v1 or v2) or
 * one of its parents has a limit. Page cache counts as free: the kernel reclaims it on demand. */
int64_t lh_machine_free_bytes(const char *root);

/* The processor, as /proc/cpuinfo calls it, else the architecture's name. */
void lh_machine_cpu_name(const char *root, char *out, int64_t cap_bytes);

/* Processors this process may run on. */
int lh_machine_cores(void);

#endif
