/* devices.h - what each rank of a run computes on: one device a rank, unless they may share. */
#ifndef LH_ENGINE_DEVICES_H
#define LH_ENGINE_DEVICES_H

#include "comm/comm.h"
#include "kernels/ops.h"

typedef struct lh_devices_wish {
    const char *device; /* "auto": cuda where every rank finds a device, else cpu; "cpu", "cuda", "ref" */
    int share;          /* 1: ranks of one host may share a CUDA device */
    int64_t memory;     /* bytes that a rank may take at most; 0: its part of what is free */
} lh_devices_wish;

typedef struct lh_devices {
    const lh_ops *ops;
    lh_device *device; /* of this rank; new, with its part of the free memory as its limit, or less */
    int apart;         /* no two ranks share a CUDA device */
} lh_devices;

/* Collective over `world`; fails on all ranks or on none. LH_EUSAGE says what is missing, or which ranks would share a
 * device. */
lh_status lh_devices_open(lh_devices *out, lh_comm *world, const lh_devices_wish *wish);

/* What a device of this host has free now, and among how many such devices a run's ranks would be dealt, or
 * wish->memory for each rank; then the device need not be here. "auto" is cuda where there is a device. */
typedef struct lh_devices_room {
    lh_device_kind kind;
    int64_t free_bytes;
    int dealt; /* 0: each rank has a device of its own */
} lh_devices_room;
lh_status lh_devices_look(lh_devices_room *out, const lh_devices_wish *wish);

/* The operations of a device by its name, without "auto"; LH_EUSAGE naming those that there are. */
lh_status lh_devices_ops(const char *device, const lh_ops **out);

#endif
