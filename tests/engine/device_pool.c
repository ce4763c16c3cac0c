#include "engine/device_pool.h"

#include "device/cuda.h"

device_pool device_pool_now(void)
{
    cudaMemPool_t pool = NULL;
    int device = 0;
    unsigned long long used = 0, reserved = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetDefaultMemPool(&pool, device) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) != cudaSuccess)
        return (device_pool){-1, -1};
    return (device_pool){(int64_t)used, (int64_t)reserved};
}
