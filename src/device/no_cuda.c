/* A build without CUDA still answers the question what devices of that kind there are. */
#include <stdio.h>

#include "device/device_impl.h"

void lh_cuda_device_find(lh_device_found *found)
{
    found->count = 0;
    snprintf(found->text, sizeof found->text, "not in this build (configure with -DLH_CUDA=ON)");
}
