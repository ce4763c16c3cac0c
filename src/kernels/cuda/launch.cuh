/* launch.cuh - launches of kernels: a shape, a stream, an error as a status. */
#ifndef LH_KERNELS_CUDA_LAUNCH_CUH
#define LH_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "device/cuda.h"
#include "kernels/cuda/cuda.h"
#include "kernels/ragged.h"
}

/* `blocks` of `threads` threads (a multiple of 32, at most 1024), `shared` bytes of dynamic shared memory each. */
typedef struct lh_shape {
    dim3 blocks;
    int threads;
    int64_t shared;
} lh_shape;

/* More shared memory than this, static and dynamic together, needs an opt-in. The static memory of a kernel is unknown
 * here, and an opt-in for less is harmless: lh_launch opts in from a third of it on. */
#define LH_SHARED_PLAIN (48 << 10)

/* Shared memory that the system reserves per block; a multiprocessor has as much more than the maximum of a block. */
#define LH_SHARED_OF_BLOCK (1 << 10)

/* Dynamic shared memory of a block, aligned to 16. */
#ifdef LH_SIMT
#define lh_shared() ((unsigned char *)simt_dynamic_shared())
#else
extern __shared__ __align__(16) unsigned char lh_dynamic_shared[];
#define lh_shared() lh_dynamic_shared
#endif

/* kernel<<<shape, stream>>>(args…). Without blocks nothing happens. `name`: the operation, for messages. */
template <typename... P, typename... A>
static lh_status lh_launch(lh_stream *stream, const char *name, lh_shape shape, void (*kernel)(P...), A... args)
{
    if (!shape.blocks.x || !shape.blocks.y || !shape.blocks.z) return LH_OK;
    if (shape.shared > LH_SHARED_PLAIN / 3)
        LH_TRY(lh_cuda_check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared), name));
#ifdef LH_SIMT
    LH_TRY(lh_cuda_check(simt_launch(lh_stream_cuda(stream), name,
                                     simt_shape{shape.blocks, dim3((unsigned)shape.threads), (size_t)shape.shared},
                                     [=] { kernel(args...); }),
                         name));
#else
    kernel<<<shape.blocks, dim3((unsigned)shape.threads), (size_t)shape.shared, lh_stream_cuda(stream)>>>(args...);
    LH_TRY(lh_cuda_check(cudaGetLastError(), name));
#endif
    return LH_OK;
}

/* Blocks for `n` items, `each` per block: enough for all, or as many as keep a device busy; kernels loop with a stride
 * (lh_grid_first, lh_grid_step). */
static inline unsigned lh_blocks(int64_t n, int64_t each)
{
    const int64_t most = 1 << 16;
    int64_t blocks = (n + each - 1) / each;
    return (unsigned)(blocks < most ? blocks : most);
}

static __device__ __forceinline__ int64_t lh_grid_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t lh_grid_step(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

#endif
