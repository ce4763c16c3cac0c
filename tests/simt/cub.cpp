/* CUB's sorts by those of the C++ library. */
#include "cub/block/block_radix_sort.cuh"
#include "cub/device/device_radix_sort.cuh"

#include <algorithm>
#include <vector>

#include "simt.h"

namespace
{

/* By the bits [begin, end) of a key. */
struct sorting {
    uint64_t *from, *to;
    char *room;
    size_t count, room_bytes;
    int begin, end;

    uint64_t bits(uint64_t key) const
    {
        return key << (64 - end) >> (64 - end + begin);
    }

    /* One thread: the others of its warp have nothing to do. */
    void run(uint64_t *other) const
    {
        std::vector<uint64_t> keys(from, from + count);
        std::stable_sort(keys.begin(), keys.end(), [this](uint64_t a, uint64_t b) { return bits(a) < bits(b); });
        std::copy(keys.begin(), keys.end(), to);
        memset(other, 0xff, count * sizeof *other);
        memset(room, 0xff, room_bytes);
        simt_loads(from, count * sizeof *from);
        simt_stores(to, count * sizeof *to);
    }
};

} // namespace

template <typename KeyT, typename NumItemsT>
cudaError_t cub::DeviceRadixSort::SortKeys(void *room, size_t &room_bytes, DoubleBuffer<KeyT> &keys, NumItemsT count,
                                           int begin, int end, cudaStream_t stream)
{
    const size_t wanted = 256 + (size_t)count / 4;
    KeyT *current = keys.Current(), *alternate = keys.Alternate();
    if (begin < 0 || end <= begin || end > (int)sizeof(KeyT) * 8) return cudaErrorInvalidValue;
    if (!room) {
        room_bytes = wanted;
        return cudaSuccess;
    }
    if (room_bytes < wanted) return cudaErrorInvalidValue;
    if (!count) return cudaSuccess;
    if ((uintptr_t)current % sizeof(KeyT) || (uintptr_t)alternate % sizeof(KeyT))
        simt_fault("keys that are sorted are not aligned to their size");
    if (current < alternate + count && alternate < current + count) simt_fault("the two buffers of a sort overlap");
    int drawn[2];
    simt_shuffle(drawn, 2);
    keys.selector ^= drawn[0];
    KeyT *other = keys.Alternate();
    sorting s = {current, keys.Current(), (char *)room, (size_t)count, wanted, begin, end};
    return simt_launch(stream, "cub", simt_shape{dim3(1), dim3(32), 0}, [s, other] {
        if (threadIdx.x == 0) s.run(other);
    });
}

template cudaError_t cub::DeviceRadixSort::SortKeys(void *, size_t &, DoubleBuffer<uint64_t> &, int64_t, int, int,
                                                    cudaStream_t);

void simt_sort_pairs(uint32_t *keys, int32_t *values, int count, int threads)
{
    std::vector<std::pair<uint32_t, int32_t>> pairs;
    if (blockDim.x != (unsigned)threads) simt_fault("a block of %u threads sorts as %d", blockDim.x, threads);
    for (int i = 0; i < count; i++) pairs.emplace_back(keys[i], values[i]);
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    for (int i = 0; i < count; i++) {
        keys[i] = pairs[(size_t)i].first;
        values[i] = pairs[(size_t)i].second;
    }
}
