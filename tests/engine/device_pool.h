/* device_pool.h - what the driver's pool of the CUDA device in use has, in bytes: given out, and with what it keeps
 * back. At NULL in programs without a CUDA device. */
#ifndef LH_TESTS_DEVICE_POOL_H
#define LH_TESTS_DEVICE_POOL_H

#include <stdint.h>

typedef struct device_pool {
    int64_t used, reserved;
} device_pool;

device_pool device_pool_now(void) __attribute__((weak));

#endif
