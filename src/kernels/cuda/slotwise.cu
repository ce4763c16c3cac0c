/* Operations on slots one by one (slotwise.h): blockIdx.y is the head, and a thread has every so many of its slots. */
#include "kernels/cuda/entries.cuh"

extern "C" {
#include "kernels/slotwise.h"
}

enum { THREADS = 256, SLOTS = 4 * THREADS };

static __device__ __forceinline__ lh_slot_range own_slots(int64_t end)
{
    return lh_slot_range{lh_grid_first(), end, lh_grid_step()};
}

#define LH_SLOTWISE(op, rows, cols, cost)                                                              \
    static __global__ void op##_kernel(lh_##op##_args args)                                            \
    {                                                                                                  \
        const lh_##op##_args *a = &args;                                                               \
        lh_##op##_slots(a, blockIdx.y, own_slots((cols)));                                             \
    }                                                                                                  \
    lh_status lh_cuda_##op(lh_stream *stream, const lh_##op##_args *a)                                 \
    {                                                                                                  \
        return lh_launch(stream, #op, lh_over_slots((rows), (cols), THREADS, SLOTS), op##_kernel, *a); \
    }

/* The description of a cache is the host's: a kernel has its own. */
#define LH_SLOTWISE_KV(op, cost)                                             \
    static __global__ void op##_kernel(lh_##op##_args a, lh_ragged kv)       \
    {                                                                        \
        a.kv = &kv;                                                          \
        lh_##op##_slots(&a, blockIdx.y, own_slots(a.ld));                    \
    }                                                                        \
    lh_status lh_cuda_##op(lh_stream *stream, const lh_##op##_args *a)       \
    {                                                                        \
        lh_shape shape = lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS); \
        return lh_launch(stream, #op, shape, op##_kernel, *a, *a->kv);       \
    }
#include "kernels/slotwise_list.h"
LH_SLOTWISE_KV(gumbel_scores, 16)

typedef struct classify_job {
    lh_classify_args args;
    lh_caches caches;
    lh_position_lines lines[LH_CACHES_AT_ONCE];
} classify_job;

static __global__ void classify_kernel(const __grid_constant__ classify_job job)
{
    lh_classify_args a = job.args;
    a.kv = job.caches.at;
    a.lines = job.lines;
    lh_classify_slots(&a, blockIdx.y, own_slots(a.ld));
}

lh_status lh_cuda_classify(lh_stream *stream, const lh_classify_args *a)
{
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        classify_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.state += job.caches.first * a->ld;
        for (int64_t b = 0; b < LH_CACHES_AT_ONCE && from + b < a->batch; b++) job.lines[b] = a->lines[from + b];
        LH_TRY(
            lh_launch(stream, "classify", lh_over_slots(job.caches.rows, a->ld, THREADS, SLOTS), classify_kernel, job));
    }
    return LH_OK;
}
