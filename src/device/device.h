/* device.h - the device that a rank computes on: memory, streams, events. Every byte of weights, cache and workspace
 * comes from lh_device_alloc, which counts it exactly; nothing else allocates memory that grows with a model or a
 * prompt. Work is enqueued on a stream; on a CPU it is done when the call returns. */
#ifndef LH_DEVICE_DEVICE_H
#define LH_DEVICE_DEVICE_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_device lh_device;
typedef struct lh_stream lh_stream;
typedef struct lh_event lh_event;

typedef enum lh_device_kind { LH_DEVICE_CPU, LH_DEVICE_CUDA, LH_DEVICE_KINDS } lh_device_kind;

/* "cpu", "cuda". */
const char *lh_device_kind_name(lh_device_kind kind);

/* *out = the kind called `name`, and 1; 0 if there is none. */
int lh_device_kind_find(const char *name, lh_device_kind *out);

/* Devices of a kind on this machine, found without opening one. text: their names; if count is 0, the missing piece,
 * such as "no driver". */
typedef struct lh_device_found {
    int count;
    char text[512];
} lh_device_found;

void lh_device_find(lh_device_kind kind, lh_device_found *found);

/* Purpose of memory; each is counted separately. */
typedef enum lh_mem { LH_MEM_WEIGHTS, LH_MEM_KV, LH_MEM_WORK, LH_MEM_KINDS } lh_mem;

/* A device of this host. An allocation beyond limit_bytes fails with LH_ENOMEM; 0: the limit is the memory that is free
 * now. */
typedef struct lh_device_choice {
    lh_device_kind kind;
    int index; /* index among the devices of its kind */
    int64_t limit_bytes;
    int counts_only; /* true: a device that only counts memory, as a device of this kind would, and executes nothing */
} lh_device_choice;

/* A device that cannot be opened here fails with LH_EUSAGE, naming the missing piece. A device may be used by several
 * threads. */
lh_status lh_device_open(lh_device **out, const lh_device_choice *choice);
void lh_device_set_limit(lh_device *device, int64_t limit_bytes); /* for allocations from now on */
int64_t lh_device_room(lh_device *device);                        /* bytes left below the limit */
void lh_device_close(lh_device *device);                          /* asserts that everything was freed */

lh_device_kind lh_device_kind_of(const lh_device *device);
const char *lh_device_name(const lh_device *device); /* such as "AMD EPYC, 2 cores" */

/* PCI address of the device on its host, such as "0000:3b:00.0": ranks on one host with the same address share it. ""
 * for the host itself. */
const char *lh_device_bus(const lh_device *device);

/* *out = `bytes` bytes, 64-byte aligned, uninitialised; NULL for 0 bytes. The message of a failure names the bytes
 * requested, the bytes held and the limit. The bytes requested are counted. Large blocks return to the system when they
 * are freed. */
lh_status lh_device_alloc(lh_device *device, void *out, int64_t bytes, lh_mem what);
void lh_device_free(lh_device *device, void *p); /* NULL is fine */

/* *out = `bytes` bytes of host memory, 64-byte aligned, for asynchronous copies (page-locked where they need it). Not
 * counted. */
lh_status lh_device_alloc_host(lh_device *device, void *out, int64_t bytes);
void lh_device_free_host(lh_device *device, void *p); /* NULL is fine */

typedef struct lh_mem_usage {
    int64_t now[LH_MEM_KINDS], peak[LH_MEM_KINDS]; /* bytes; peak of each kind */
    int64_t now_total, peak_total;                 /* of all kinds together */
} lh_mem_usage;

lh_mem_usage lh_device_usage(const lh_device *device);
void lh_device_reset_peak(lh_device *device);

/* Bytes of memory free for this process now; respects the cgroup's limit. */
int64_t lh_device_free_bytes(const lh_device *device);

/* Peak of the device's memory in use, in bytes, as its driver counts it: allocated memory and freed memory that the
 * driver's pool kept, the program and its libraries, and other processes now. 0: the driver does not count. */
int64_t lh_device_driver_peak(const lh_device *device);

lh_status lh_stream_open(lh_stream **out, lh_device *device);
void lh_stream_close(lh_stream *stream);
lh_device *lh_stream_device(const lh_stream *stream);

/* Workspace of an operation: at least `bytes` bytes, 64-byte aligned, valid until the next call on this stream. Grows
 * when needed, is kept for the next operation, and is counted as LH_MEM_WORK. */
lh_status lh_stream_scratch(lh_stream *stream, void *out, int64_t bytes);

/* Counters for kernels that detect their last block: `count` zeros, valid until the next call on this stream. A kernel
 * that counts with them resets them to 0. Grow when needed, counted as LH_MEM_WORK. */
lh_status lh_stream_counters(lh_stream *stream, uint32_t **out, int64_t count);

/* Host memory for copies of this stream (page-locked where that is faster): at least `bytes` bytes, 64-byte aligned,
 * valid until the next call on this stream, which waits for its work if it must grow. */
lh_status lh_stream_staging(lh_stream *stream, void *out, int64_t bytes);

/* Latch a failure of enqueued work, with the calling thread's message; only the first is kept, LH_OK is ignored.
 * lh_stream_status returns the latched status. lh_stream_take also restores its message and clears the latch. */
void lh_stream_latch(lh_stream *stream, lh_status st);
lh_status lh_stream_status(const lh_stream *stream);
lh_status lh_stream_take(lh_stream *stream);

/* Wait for all enqueued work; returns its first error. */
lh_status lh_stream_sync(lh_stream *stream);

/* Work enqueued on `stream` from now on begins after all work enqueued so far on `first`, a stream of the same
 * device. */
lh_status lh_stream_after(lh_stream *stream, lh_stream *first);

/* Hooks of lh_stream_sync, for a communicator whose collectives are enqueued on the stream: called before the wait,
 * periodically during it (a failure ends it), and after it. NULL: none. */
typedef struct lh_stream_waiter {
    void *self;
    void (*before)(void *self);
    lh_status (*during)(void *self);
    void (*after)(void *self);
} lh_stream_waiter;
void lh_stream_watch(lh_stream *stream, const lh_stream_waiter *waiter);

/* Enqueue a copy or a fill. Source and destination may overlap on one device. Host memory may be freed or read only
 * after the next lh_stream_sync. */
typedef enum lh_copy_way { LH_COPY_TO_DEVICE, LH_COPY_TO_HOST, LH_COPY_ON_DEVICE } lh_copy_way;
lh_status lh_stream_copy(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way);
lh_status lh_stream_zero(lh_stream *stream, void *dst, int64_t bytes);

/* Enqueue a copy of a little host memory to the device; it may be freed as soon as the call returns. */
lh_status lh_stream_put(lh_stream *stream, void *dst, const void *src, int64_t bytes);

/* CUDA graphs: work that is captured once and replayed with one call, on devices that support it. Between
 * lh_stream_record and lh_stream_recorded enqueued operations, copies on the device and collectives are captured and
 * not executed; nothing may be allocated, freed, waited for, or copied from or to the host. One thread calls both:
 * other threads that allocate or free memory of the device, or open or close a stream, wait until capture ends. A graph
 * keeps its addresses: it holds the workspace of the capturing stream until it is closed; the caller tracks its other
 * memory. */
typedef struct lh_graph lh_graph;
int lh_device_records(const lh_device *device);
lh_status lh_stream_record(lh_stream *stream);
lh_status lh_stream_recorded(lh_stream *stream, lh_graph **out); /* out NULL: drop the graph */
int64_t lh_graph_nodes(const lh_graph *graph);                   /* kernels, copies and fills of one replay */
lh_status lh_graph_run(lh_graph *graph);                         /* on the stream that captured it */
void lh_graph_close(lh_graph *graph); /* NULL is fine; the last replay may still be running */

/* Times on the clock of the device. */
lh_status lh_event_open(lh_event **out, lh_device *device);
void lh_event_close(lh_event *event);
lh_status lh_event_record(lh_event *event, lh_stream *stream);
/* Seconds from `first` to `last`, both recorded; waits for `last`. */
lh_status lh_event_seconds(lh_event *first, lh_event *last, double *seconds);

#endif
