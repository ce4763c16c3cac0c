/* devices.h - assigns devices to the ranks of a run: one per rank, unless they may share. Also finds out the free
 * memory of a device for a forecast. */
#ifndef LH_ENGINE_DEVICES_H
#define LH_ENGINE_DEVICES_H

#include "comm/comm.h"
#include "kernels/ops.h"

typedef struct lh_device_request {
    const char *device; /* "auto": cuda if every rank finds a device, else cpu; "cpu", "cuda", "ref" */
    int share;          /* 1: ranks of one host may share a CUDA device */
    int64_t memory;     /* bytes that are given to a rank, at most; 0: its share of the free memory */
} lh_device_request;

typedef struct lh_devices {
    const lh_ops *ops;
    lh_device *device;       /* of this rank; new */
    int one_device_per_rank; /* 1: no two ranks share a CUDA device */
    int sharers;             /* ranks that divide the free memory of its host or GPU */
    int64_t memory;          /* as requested */
} lh_devices;

/* Collective over `world`; fails on all ranks or on none. LH_EUSAGE names the missing device, or the ranks that would
 * share one. */
lh_status lh_devices_open(lh_devices *out, lh_comm *world, const lh_device_request *request);

/* Bytes that a rank may allocate out of so many free ones: on a GPU all but a reserve for uncounted memory (machine
 * code, which is loaded when it first runs, graphs, buffers of NCCL): 1/64, or 1.5 GB if that is more, but at most
 * 1/8. */
int64_t lh_devices_usable(lh_device_kind kind, int64_t free_bytes);

/* Collective over `world`, when all ranks have opened their libraries and communicators: limits every rank's device to
 * the usable part of its share of the free memory, or of the requested memory if that is less. */
lh_status lh_devices_limit(const lh_devices *devices, lh_comm *world);

/* Free memory of a device of this host once libraries are open, and the number of such devices that the ranks of a run
 * would share; or request->memory for each rank, in which case the device need not exist here. "auto" is cuda if there
 * is a device. */
typedef struct lh_devices_room {
    lh_device_kind kind;
    int64_t free_bytes;
    int dealt; /* 0: each rank has its own device */
} lh_devices_room;
lh_status lh_devices_query(lh_devices_room *out, const lh_device_request *request);

/* The operations of a device by its name, except "auto". LH_EUSAGE lists the valid names. */
lh_status lh_devices_ops(const char *device, const lh_ops **out);

#endif
