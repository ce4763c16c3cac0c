/* block_radix_sort.cuh - the sort of a block's numbers by CUB, as far as this project uses it, on a machine without a
 * GPU (cub.cpp). For tests only. Who uses the room again before a barrier changes what others have not taken yet. */
#ifndef LH_TESTS_SIMT_CUB_BLOCK_RADIX_SORT_CUH
#define LH_TESTS_SIMT_CUB_BLOCK_RADIX_SORT_CUH

#include "cuda_runtime.h"

/* Sorts pairs by key, descending and stable. One thread of a block calls it; `threads`: those that the block must have.
 */
void simt_sort_pairs(uint32_t *keys, int32_t *values, int count, int threads);

namespace cub
{

/* For KeyT uint32_t and ValueT int32_t. */
template <typename KeyT, int THREADS, int EACH, typename ValueT>
class BlockRadixSort
{
  public:
    struct TempStorage {
        KeyT keys[THREADS * EACH];
        ValueT values[THREADS * EACH];
    };

    explicit BlockRadixSort(TempStorage &storage) : room(storage)
    {
    }

    void SortDescendingBlockedToStriped(KeyT (&keys)[EACH], ValueT (&values)[EACH])
    {
        const int t = (int)threadIdx.x;
        for (int j = 0; j < EACH; j++) {
            room.keys[t * EACH + j] = keys[j];
            room.values[t * EACH + j] = values[j];
        }
        __syncthreads();
        if (t == 0) simt_sort_pairs(room.keys, room.values, THREADS * EACH, THREADS);
        __syncthreads();
        for (int j = 0; j < EACH; j++) {
            keys[j] = room.keys[j * THREADS + t];
            values[j] = room.values[j * THREADS + t];
        }
    }

  private:
    TempStorage &room;
};

} // namespace cub

#endif
