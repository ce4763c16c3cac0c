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
