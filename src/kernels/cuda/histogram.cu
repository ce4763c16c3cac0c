/* Counts of score keys: integers, so that atomics may add them in any order. A block counts its slots of one head
 * in shared memory first: 5 bytes a slot are read, and a head's bins are written once a block. */
#include "kernels/cuda/entries.cuh"
#include "kernels/score_rows.h"

enum {
    THREADS = 512,
    SLOTS = 16 * THREADS,
    SHARED_BITS = 12 /* more bins than these are counted where they are */
};

/* Of some caches; its kv is not used. */
typedef struct histogram_job {
    lh_histogram_args args;
    lh_caches caches;
} histogram_job;

/* That of blockIdx.y. */
static __device__ __forceinline__ lh_histogram_row row_of(const histogram_job &job)
{
    lh_histogram_args a = job.args;
    a.kv = job.caches.at;
    return lh_histogram_row_at(&a, blockIdx.y);
}

/* The only block of a row writes its bins; several add to them. */
static __global__ void __launch_bounds__(THREADS) histogram_kernel(const __grid_constant__ histogram_job job)
{
    unsigned *bins = (unsigned *)lh_shared();
    const lh_histogram_row row = row_of(job);
    int count = 1 << job.args.bits;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < row.len; s += lh_grid_step()) {
        int64_t bin = lh_histogram_bin(&job.args, &row, s);
        if (bin >= 0) atomicAdd(bins + bin, 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        if (gridDim.x == 1)
            row.bins[i] = (int32_t)bins[i];
        else if (bins[i])
            atomicAdd((unsigned *)row.bins + i, bins[i]);
    }
}

static __global__ void __launch_bounds__(THREADS) histogram_many_kernel(const __grid_constant__ histogram_job job)
{
    const lh_histogram_row row = row_of(job);
    for (int64_t s = lh_grid_first(); s < row.len; s += lh_grid_step()) {
        int64_t bin = lh_histogram_bin(&job.args, &row, s);
        if (bin >= 0) atomicAdd((unsigned *)row.bins + bin, 1u);
    }
}

static __global__ void __launch_bounds__(THREADS) clear_bins_kernel(const __grid_constant__ histogram_job job)
{
    const lh_histogram_row row = row_of(job);
    for (int64_t i = lh_grid_first(); i < (int64_t)1 << job.args.bits; i += lh_grid_step()) row.bins[i] = 0;
}

static lh_status count(lh_stream *stream, const histogram_job *job)
{
    const int64_t rows = job->caches.rows, bins = (int64_t)1 << job->args.bits;
    lh_shape shape = lh_over_slots(rows, job->args.ld, THREADS, SLOTS);
    int few = job->args.bits <= SHARED_BITS;
    if (!few || shape.blocks.x != 1)
        LH_TRY(lh_launch(stream, "histogram", lh_over_slots(rows, bins, THREADS, SLOTS), clear_bins_kernel, *job));
    if (few) shape.shared = bins * (int64_t)sizeof(unsigned);
    return lh_launch(stream, "histogram", shape, few ? histogram_kernel : histogram_many_kernel, *job);
}

lh_status lh_cuda_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        histogram_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.histograms += from << a->bits;
        job.args.scores += from * a->scores_step;
        job.args.state += from * a->state_step;
        if (a->search) job.args.search += from;
        LH_TRY(count(stream, &job));
    }
    return LH_OK;
}
