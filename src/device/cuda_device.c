/* Which CUDA devices this machine has. A program linked with the CUDA runtime starts without a driver, too; every call
 * of it fails then, which means: no device. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "device/device_impl.h"

static void name_devices(lh_device_found *found)
{
    size_t used = 0;
    for (int i = 0; i < found->count && used < sizeof found->text; i++) {
        struct cudaDeviceProp prop;
        cudaError_t rc = cudaGetDeviceProperties(&prop, i);
        int n = rc == cudaSuccess
                    ? snprintf(found->text + used, sizeof found->text - used, "%s%s, sm_%d%d, %.1f GiB", i ? "; " : "",
                               prop.name, prop.major, prop.minor, (double)prop.totalGlobalMem / (1 << 30))
                    : snprintf(found->text + used, sizeof found->text - used, "%sdevice %d: %s", i ? "; " : "", i,
                               cudaGetErrorString(rc));
        used += n > 0 ? (size_t)n : 0;
    }
}

void lh_cuda_device_find(lh_device_found *found)
{
    int driver = 0, runtime = 0;
    found->count = 0;
    cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        snprintf(found->text, sizeof found->text, "no driver (CUDA runtime %d.%d is there)", runtime / 1000,
                 runtime % 1000 / 10);
        return;
    }
    cudaError_t rc = cudaGetDeviceCount(&found->count);
    if (rc == cudaSuccess && found->count > 0) {
        name_devices(found);
        return;
    }
    found->count = 0;
    snprintf(found->text, sizeof found->text, "no device: %s (driver for CUDA %d.%d, runtime %d.%d)",
             rc == cudaSuccess ? "the driver lists none" : cudaGetErrorString(rc), driver / 1000, driver % 1000 / 10,
             runtime / 1000, runtime % 1000 / 10);
}
