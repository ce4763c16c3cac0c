/* counts.h - the work of a device: launches, copies, collectives, waits. Only the emulated device of tests/simt counts
 * it (docs/gpu.md); cards are measured instead. */
#ifndef LH_DEVICE_COUNTS_H
#define LH_DEVICE_COUNTS_H

#include "device/device.h"

typedef enum lh_count_kind {
    LH_COUNT_KERNEL,     /* launches, by the name of the operation; includes replayed graphs */
    LH_COUNT_GRAPH,      /* replays of graphs */
    LH_COUNT_COPY,       /* "to device", "to host", "on device", "fill"; includes replayed graphs */
    LH_COUNT_COLLECTIVE, /* of device memory: "all-reduce", … */
    LH_COUNT_WAIT,       /* waits of the host for unfinished work: "stream", "event", "pageable copy" */
    LH_COUNT_KINDS
} lh_count_kind;

/* "kernel", "graph", … */
const char *lh_count_kind_name(lh_count_kind kind);

/* One for each name of a kind. loaded, stored: bytes of device memory. Of kernels: the sectors of 32 bytes that they
 * read and write, each counted once a launch; of copies: the bytes copied; of collectives: the bytes that this rank
 * sends and receives. */
typedef struct lh_count {
    lh_count_kind kind;
    const char *name;
    int64_t times, loaded, stored;
} lh_count;

/* Counts since the program began, after all enqueued work is done (which does not count as a wait); returns the number
 * of counts, -1 if the device does not count. A count keeps its index, new ones are added at the end. *counts: valid
 * until the next call. */
int64_t lh_device_counts(const lh_device *device, const lh_count **counts);

#endif
