/* A build without CUDA reports that it has no CUDA devices. */
#include <stdio.h>

#include "device/device_impl.h"

void lh_cuda_device_find(lh_device_found *found)
{
    found->count = 0;
    snprintf(found->text, sizeof found->text, "not in this build (configure with -DLH_CUDA=ON)");
}

static lh_status open_none(lh_device *device, int index)
{
    (void)device, (void)index;
    LH_FAIL(LH_EUSAGE,
            "device 'cuda' cannot be used: this build has no CUDA (configure it with -DLH_CUDA=ON where "
            "the toolkit is); %s cpu always works",
            lh_setting("device"));
}

const lh_device_ops lh_cuda_device_ops = {.open = open_none};
