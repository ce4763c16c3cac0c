/* counts.h - what a device was asked to do. Only the emulated device of tests/simt counts it (docs/gpu.md); cards are
 * measured instead. */
#ifndef LH_DEVICE_COUNTS_H
#define LH_DEVICE_COUNTS_H

#include "device/device.h"

typedef enum lh_count_kind {
    LH_COUNT_KERNEL,     /* launches, by the name of the operation; those of replayed graphs, too */
    LH_COUNT_GRAPH,      /* replays of graphs */
    LH_COUNT_COPY,       /* "to device", "to host", "on device", "fill"; those of replayed graphs, too */
    LH_COUNT_COLLECTIVE, /* of device memory: "all-reduce", … */
    LH_COUNT_WAIT,       /* of the host for work that it had not waited for: "stream", "event", "pageable copy" */
    LH_COUNT_KINDS
} lh_count_kind;

/* "kernel", "graph", … */
const char *lh_count_kind_name(lh_count_kind kind);

/* One for each name of a kind. loaded, stored: of kernels the bytes of device memory that they read and write, in
 * sectors of 32 bytes, each once a launch however often it is wanted; of copies those of device memory; of collectives
 * those that this rank sends and gets. */
typedef struct lh_count {
    lh_count_kind kind;
    const char *name;
    int64_t times, loaded, stored;
} lh_count;

/* Counts since the program began, after all enqueued work is done (which is not a wait); returns how many, -1 if
 * the device does not count. Each stays in its place, new ones are added at the end. *counts: valid until the next
 * call. */
int64_t lh_device_counts(const lh_device *device, const lh_count **counts);

#endif
