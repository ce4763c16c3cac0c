/* read_rate.h - bytes a second that a device reads from its memory, measured: the bound of decoding. */
#ifndef LH_ENGINE_READ_RATE_H
#define LH_ENGINE_READ_RATE_H

#include "device/device.h"

/* The sum of all 64-bit numbers in host memory: all threads read every byte once. bytes: a multiple of 1 MiB. */
uint64_t lh_read_memory(const void *data, int64_t bytes);

/* *out = reads of host memory by all threads; on a GPU copies within its memory, bytes read and written. Takes about
 * 0.1 s and 128 MiB, or 32 MiB a thread if that is more, but at most a quarter of `room_bytes`. LH_ENOMEM; LH_EUSAGE if
 * there is no such device here. */
lh_status lh_read_rate(double *out, lh_device_kind kind, int64_t room_bytes);

#endif
