/* devices.h - assigns devices to the ranks of a run: one per rank, unless they may share. Also finds out the free
 * memory of a device for a forecast. */
#ifndef LH_ENGINE_DEVICES_H
#define LH_ENGINE_DEVICES_H

#include "comm/comm.h"
#include "kernels/ops.h"

typedef struct lh_device_request {
    const char *device; /* "auto": cuda if every rank finds a device, else cpu; "cpu", "cuda", "ref" */
    int share;          /* 1: ranks of one host may share a CUDA device */
    int64_t memory;     /* maximum bytes per rank; 0: its share of the free memory */
} lh_device_request;

typedef struct lh_devices {
    const lh_ops *ops;
    lh_device *device; /* of this rank; new, limited to its share of the free memory or to `memory` */
    int apart;         /* 1: no two ranks share a CUDA device */
} lh_devices;

/* Collective over `world`; fails on all ranks or on none. LH_EUSAGE names what is missing, or which ranks would share a
 * device. */
lh_status lh_devices_open(lh_devices *out, lh_comm *world, const lh_device_request *request);

/* Free memory of a device of this host, and the number of such devices that the ranks of a run would share; or
 * request->memory for each rank, in which case the device need not exist here. "auto" is cuda if there is a device. */
typedef struct lh_devices_room {
    lh_device_kind kind;
    int64_t free_bytes;
    int dealt; /* 0: each rank has its own device */
} lh_devices_room;
lh_status lh_devices_query(lh_devices_room *out, const lh_device_request *request);

/* The operations of a device by its name, except "auto". LH_EUSAGE lists the valid names. */
lh_status lh_devices_ops(const char *device, const lh_ops **out);

#endif
