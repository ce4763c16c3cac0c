/* Counts of score keys: whole numbers, so that atomics may add them in any order. A block counts its slots of one head
 * in shared memory first. */
#include "kernels/cuda/entries.cuh"

enum {
    THREADS = 512,
    SLOTS = 16 * THREADS,
    SHARED_BITS = 12 /* more bins than these are counted where they are */
};

/* The bin of slot s of head h, or -1. */
static __device__ int64_t bin_of(const lh_histogram_args &a, int64_t h, int64_t s)
{
    if (a.state[h * a.ld + s] != LH_ENTRY_COMPETES) return -1;
    uint64_t key = lh_score_key(a.scores[h * a.ld + s]);
    if (key >> (32 - a.prefix_bits) != a.prefix) return -1;
    return (int64_t)(key >> (32 - a.prefix_bits - a.bits)) & (((int64_t)1 << a.bits) - 1);
}

static __global__ void histogram_kernel(lh_histogram_args a)
{
    unsigned *bins = (unsigned *)lh_shared();
    int64_t h = blockIdx.y, len = a.len[h];
    int count = 1 << a.bits;
    if ((int64_t)blockIdx.x * blockDim.x >= len) return;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t bin = bin_of(a, h, s);
        if (bin >= 0) atomicAdd(bins + bin, 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        if (bins[i]) atomicAdd((unsigned long long *)a.bins + i, (unsigned long long)bins[i]);
    }
}

static __global__ void histogram_many_kernel(lh_histogram_args a)
{
    int64_t h = blockIdx.y, len = a.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t bin = bin_of(a, h, s);
        if (bin >= 0) atomicAdd((unsigned long long *)a.bins + bin, 1ull);
    }
}

lh_status lh_cuda_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    lh_status st = LH_OK;
    lh_shape shape = lh_over_slots(a->heads, a->ld, THREADS, SLOTS);
    auto *kernel = a->bits <= SHARED_BITS ? histogram_kernel : histogram_many_kernel;
    if (a->bits <= SHARED_BITS) shape.shared = (int64_t)sizeof(unsigned) << a->bits;
    LH_TRY(lh_stream_zero(stream, a->bins, (int64_t)sizeof *a->bins << a->bits));
    LH_TRY(lh_launch(stream, "histogram", shape, kernel, *a));
done:
    return st;
}

static __global__ void count_at_kernel(lh_count_at_args a)
{
    __shared__ int room[LH_WARP];
    int64_t h = blockIdx.y, len = a.len[h];
    int above = 0, at = 0;
    if ((int64_t)blockIdx.x * blockDim.x >= len) return;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        uint32_t key = lh_score_key(a.scores[h * a.ld + s]);
        int competes = a.state[h * a.ld + s] == LH_ENTRY_COMPETES;
        above += competes && key > a.threshold;
        at += competes && key == a.threshold;
    }
    above = lh_block_sum(above, room);
    at = lh_block_sum(at, room);
    if (threadIdx.x > 0) return;
    if (above) atomicAdd((unsigned long long *)a.above + h, (unsigned long long)above);
    if (at) atomicAdd((unsigned long long *)a.at + h, (unsigned long long)at);
}

lh_status lh_cuda_count_at(lh_stream *stream, const lh_count_at_args *a)
{
    lh_status st = LH_OK;
    int64_t bytes = a->heads * (int64_t)sizeof *a->at;
    if (a->heads == 0) return LH_OK;
    LH_TRY(lh_stream_zero(stream, a->above, bytes));
    LH_TRY(lh_stream_zero(stream, a->at, bytes));
    LH_TRY(lh_launch(stream, "count_at", lh_over_slots(a->heads, a->ld, THREADS, SLOTS), count_at_kernel, *a));
done:
    return st;
}
