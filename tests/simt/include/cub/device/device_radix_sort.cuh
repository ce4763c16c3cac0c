/* device_radix_sort.cuh - the sort of a device's memory by CUB, as far as this project uses it, on a machine without a
 * GPU (cub.cpp). For tests only. The sorted keys are in one of the two buffers, drawn anew each time; the other one and
 * the room are overwritten. */
#ifndef LH_TESTS_SIMT_CUB_DEVICE_RADIX_SORT_CUH
#define LH_TESTS_SIMT_CUB_DEVICE_RADIX_SORT_CUH

#include "cuda_runtime.h"

namespace cub
{

template <typename T>
struct DoubleBuffer {
    T *d_buffers[2];
    int selector;

    DoubleBuffer(T *current = nullptr, T *alternate = nullptr) : d_buffers{current, alternate}, selector(0)
    {
    }
    T *Current()
    {
        return d_buffers[selector];
    }
    T *Alternate()
    {
        return d_buffers[!selector];
    }
};

/* For KeyT uint64_t and NumItemsT int64_t. */
struct DeviceRadixSort {
    template <typename KeyT, typename NumItemsT>
    static cudaError_t SortKeys(void *room, size_t &room_bytes, DoubleBuffer<KeyT> &keys, NumItemsT count,
                                int begin_bit = 0, int end_bit = sizeof(KeyT) * 8, cudaStream_t stream = nullptr);
};

} // namespace cub

#endif
