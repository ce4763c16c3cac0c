/* device.h - the memory and the clock of what a rank computes on. Every byte of weights, cache and workspace
 * comes from lh_device_alloc and is counted there, exactly; nothing else allocates memory by the size of a model
 * or a prompt. Work is enqueued on a stream; on a CPU it is done when the call returns. */
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

/* The kind called `name` in *out and 1, or 0 when there is none. */
int lh_device_kind_find(const char *name, lh_device_kind *out);

/* What this machine has of a kind, found without opening anything. text: the devices' names, or what is missing, as
 * "no driver". count is 0 then. */
typedef struct lh_device_found {
    int count;
    char text[512];
} lh_device_found;

void lh_device_find(lh_device_kind kind, lh_device_found *found);

/* What memory is for; counted apart. */
typedef enum lh_mem { LH_MEM_WEIGHTS, LH_MEM_KV, LH_MEM_WORK, LH_MEM_KINDS } lh_mem;

/* Which device of this host. limit_bytes: an allocation that would pass it fails with LH_ENOMEM; 0: what the device has
 * free at this moment. */
typedef struct lh_device_choice {
    lh_device_kind kind;
    int index; /* among those of its kind */
    int64_t limit_bytes;
} lh_device_choice;

/* A device that cannot be opened here fails with LH_EUSAGE and says what is missing. A device may be used by several
 * threads. */
lh_status lh_device_open(lh_device **out, const lh_device_choice *choice);
void lh_device_set_limit(lh_device *device, int64_t limit_bytes); /* another one, of what is allocated from now on */
int64_t lh_device_room(lh_device *device);                        /* bytes that are left below the limit */
void lh_device_close(lh_device *device);                          /* asserts that everything was freed */

lh_device_kind lh_device_kind_of(const lh_device *device);
const char *lh_device_name(const lh_device *device); /* as "AMD EPYC, 2 threads" */

/* Where the device is on its host, as "0000:3b:00.0": two ranks of one host that say the same share it. "" for the
 * host itself. */
const char *lh_device_bus(const lh_device *device);

/* *out = `bytes` bytes, aligned to 64, cleared to zero by nobody; 0 bytes gives NULL. The message of a failure says how
 * much was asked for, how much is held and what the limit is. Counted are the bytes asked for. Large blocks go back to
 * the machine when they are freed. */
lh_status lh_device_alloc(lh_device *device, void *out, int64_t bytes, lh_mem what);
void lh_device_free(lh_device *device, void *p); /* NULL is fine */

/* *out = `bytes` bytes of the host, aligned to 64, into which work on the device can copy while the host goes on
 * (page-locked where that takes it). Not counted. */
lh_status lh_device_alloc_host(lh_device *device, void *out, int64_t bytes);
void lh_device_free_host(lh_device *device, void *p); /* NULL is fine */

typedef struct lh_mem_usage {
    int64_t now[LH_MEM_KINDS], peak[LH_MEM_KINDS]; /* bytes; a kind's own peak */
    int64_t now_total, peak_total;                 /* of all kinds together */
} lh_mem_usage;

lh_mem_usage lh_device_usage(const lh_device *device);
void lh_device_reset_peak(lh_device *device);

/* Memory of the machine that is free for this process now, in bytes; respects the cgroup's limit. */
int64_t lh_device_free_bytes(const lh_device *device);

lh_status lh_stream_open(lh_stream **out, lh_device *device);
void lh_stream_close(lh_stream *stream);
lh_device *lh_stream_device(const lh_stream *stream);

/* Workspace of an operation: at least `bytes` bytes, aligned to 64, that stay valid until the next call on this stream.
 * Grown when needed, kept for the next operation, counted as LH_MEM_WORK. */
lh_status lh_stream_scratch(lh_stream *stream, void *out, int64_t bytes);

/* Counters of operations that find out in a kernel which block is the last one: `count` numbers that are 0, valid until
 * the next call on this stream. Whoever counts with them leaves them at 0. Grown when needed, counted as LH_MEM_WORK.
 */
lh_status lh_stream_counters(lh_stream *stream, uint32_t **out, int64_t count);

/* Memory of the host for copies of this stream (page-locked, where that makes them faster): at least `bytes` bytes,
 * aligned to 64, valid until the next call on this stream, which waits for its work when it needs more. */
lh_status lh_stream_staging(lh_stream *stream, void *out, int64_t bytes);

/* Latch a failure of what is enqueued, with the calling thread's message; LH_OK is none, and only the first is kept.
 * lh_stream_status: the latched one. lh_stream_take: the same with its message, and none is latched after it. */
void lh_stream_latch(lh_stream *stream, lh_status st);
lh_status lh_stream_status(const lh_stream *stream);
lh_status lh_stream_take(lh_stream *stream);

/* Wait until all that was enqueued is done; returns the device's first error of it. */
lh_status lh_stream_sync(lh_stream *stream);

/* Who has to know that a stream is waited for, as a communicator whose collectives are enqueued on it: called by
 * lh_stream_sync before it waits, now and then while it waits (a failure ends the wait), and behind it. NULL: nobody.
 */
typedef struct lh_stream_waiter {
    void *self;
    void (*before)(void *self);
    lh_status (*during)(void *self);
    void (*behind)(void *self);
} lh_stream_waiter;
void lh_stream_watch(lh_stream *stream, const lh_stream_waiter *waiter);

/* Enqueue a copy or a fill. The blocks of a copy may overlap on one device. Host memory may go or be read only after
 * the next lh_stream_sync. */
typedef enum lh_copy_way { LH_COPY_TO_DEVICE, LH_COPY_TO_HOST, LH_COPY_ON_DEVICE } lh_copy_way;
lh_status lh_stream_copy(lh_stream *stream, void *dst, const void *src, int64_t bytes, lh_copy_way way);
lh_status lh_stream_zero(lh_stream *stream, void *dst, int64_t bytes);

/* Enqueue a copy of a little host memory to the device, which may go as soon as the call returns. */
lh_status lh_stream_put(lh_stream *stream, void *dst, const void *src, int64_t bytes);

/* Work that is recorded once and run any number of times with one call (a CUDA graph), for devices that can. Between
 * lh_stream_record and lh_stream_recorded what is enqueued is recorded and not done, by operations, copies on the
 * device and collectives that are enqueued; nothing may be allocated, freed, waited for, or copied from or to the host.
 * What is recorded keeps its addresses: lh_graph_holds is 0 once workspace of the stream lies elsewhere, and the caller
 * knows of its own memory. */
typedef struct lh_graph lh_graph;
int lh_device_records(const lh_device *device);
lh_status lh_stream_record(lh_stream *stream);
lh_status lh_stream_recorded(lh_stream *stream, lh_graph **out); /* out NULL: it is dropped */
int lh_graph_holds(const lh_graph *graph);
lh_status lh_graph_run(lh_graph *graph); /* on the stream that recorded it */
void lh_graph_close(lh_graph *graph);    /* NULL is fine; the work of the last run may still be under way */

/* Times on the clock of the device. */
lh_status lh_event_open(lh_event **out, lh_device *device);
void lh_event_close(lh_event *event);
lh_status lh_event_record(lh_event *event, lh_stream *stream);
/* Seconds from `first` to `last`, both recorded; waits for `last`. */
lh_status lh_event_seconds(lh_event *first, lh_event *last, double *seconds);

#endif
