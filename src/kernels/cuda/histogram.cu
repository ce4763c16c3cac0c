/* Counts of score keys: integers, so that atomics may add them in any order. A block counts its slots of one head
 * in shared memory first: 5 bytes a slot are read, and a head's bins are written once a block. */
#include "kernels/cuda/entries.cuh"

enum {
    THREADS = 512,
    SLOTS = 16 * THREADS,
    SHARED_BITS = 12 /* more bins than these are counted where they are */
};

/* The bin of slot s of head h, or -1. */
static __device__ int64_t bin_of(const lh_histogram_args &a, uint32_t prefix, int64_t h, int64_t s)
{
    if (a.state[h * a.ld + s] != LH_ENTRY_COMPETES) return -1;
    uint64_t key = lh_score_key(a.scores[h * a.ld + s]);
    if (key >> (32 - a.prefix_bits) != prefix) return -1;
    return (int64_t)(key >> (32 - a.prefix_bits - a.bits)) & (((int64_t)1 << a.bits) - 1);
}

static __device__ uint32_t prefix_of(const lh_histogram_args &a)
{
    return a.search ? a.search->prefix : 0;
}

/* The only block of a head writes its bins; several add to them. */
static __global__ void __launch_bounds__(THREADS) histogram_kernel(lh_histogram_args a)
{
    unsigned *bins = (unsigned *)lh_shared();
    int64_t h = blockIdx.y, len = a.len[h];
    int count = 1 << a.bits;
    unsigned *all = (unsigned *)a.histograms + h * a.histograms_ld;
    uint32_t prefix = prefix_of(a);
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t bin = bin_of(a, prefix, h, s);
        if (bin >= 0) atomicAdd(bins + bin, 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        if (gridDim.x == 1)
            all[i] = bins[i];
        else if (bins[i])
            atomicAdd(all + i, bins[i]);
    }
}

static __global__ void __launch_bounds__(THREADS) histogram_many_kernel(lh_histogram_args a)
{
    int64_t h = blockIdx.y, len = a.len[h];
    uint32_t prefix = prefix_of(a);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t bin = bin_of(a, prefix, h, s);
        if (bin >= 0) atomicAdd((unsigned *)a.histograms + h * a.histograms_ld + bin, 1u);
    }
}

static __global__ void __launch_bounds__(THREADS) clear_bins_kernel(lh_histogram_args a)
{
    int64_t count = (int64_t)1 << a.bits;
    for (int64_t i = lh_grid_first(); i < count; i += lh_grid_step())
        a.histograms[blockIdx.y * a.histograms_ld + i] = 0;
}

lh_status lh_cuda_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    lh_shape shape = lh_over_slots(a->heads, a->ld, THREADS, SLOTS);
    int few = a->bits <= SHARED_BITS;
    if (!few || shape.blocks.x != 1)
        LH_TRY(lh_launch(stream, "histogram", lh_over_slots(a->heads, (int64_t)1 << a->bits, THREADS, SLOTS),
                         clear_bins_kernel, *a));
    if (few) shape.shared = (int64_t)sizeof(unsigned) << a->bits;
    LH_TRY(lh_launch(stream, "histogram", shape, few ? histogram_kernel : histogram_many_kernel, *a));
    return LH_OK;
}
