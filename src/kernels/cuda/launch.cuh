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

/* Programmatic dependent launch (compute capability 9.0; CUDA programming guide, "Programmatic Dependent Launch").
 *
 * A kernel that lh_launch_early launches may start before the kernel before it in the stream has ended: when all blocks
 * of that kernel have called lh_let_next_start() or have ended, and multiprocessors have free blocks. Between the
 * earlier kernels and this one lh_wait_before() is the only order. So every block calls it, on every path: a kernel
 * that does not wait may end before the one before it, and the wait of the next kernel then returns too early. Before
 * it a kernel loads only what no earlier kernel of the step writes (weights, older entries of a cache), and stores
 * nothing to device memory, which an earlier kernel may still read. It does not load what earlier kernels wrote by
 * ld.global.nc (lh_load_once), which is for memory that does not change while the kernel runs.
 *
 * A kernel of lh_launch and a copy begin when everything before them has ended, so both kinds of launches mix. The
 * emulated device proves the rules (docs/gpu.md). */

/* Returns when all earlier kernels have ended and their stores are visible to this thread. */
static __device__ __forceinline__ void lh_wait_before(void)
{
#if defined(LH_SIMT)
    simt_wait_before();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel in the stream may start: for this block. First in a kernel, so that the next one loads weights
 * meanwhile. */
static __device__ __forceinline__ void lh_let_next_start(void)
{
#if !defined(LH_SIMT) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Returns 1 if kernels may start early on this device: the code that it runs is compiled for 9.0 or later, and so has
 * lh_wait_before (a device of 9.0 may run code of an earlier architecture, which does not wait), and graphs capture
 * such launches (CUDA 12.3). */
static inline int lh_starts_early(const lh_stream *stream)
{
    const int captures = 12030;
#ifdef LH_SIMT
    static const int built[] = {900};
#else
    static const int built[] = {__CUDA_ARCH_LIST__};
#endif
    if (CUDART_VERSION < captures || lh_cuda_driver(stream) < captures) return 0;
    for (int arch : built)
        if (arch >= 900 && arch <= 10 * lh_cuda_capability(stream)) return 1;
    return 0;
}

/* Bytes of dynamic shared memory that a kernel of this file is allowed. They are never lowered: a captured graph may
 * hold launches of several sizes. */
static inline int64_t *lh_allowed_shared(const void *kernel)
{
    enum { KERNELS = 128 };
    static struct {
        const void *kernel;
        int64_t bytes;
    } all[KERNELS];
    int i = 0;
    while (i < KERNELS - 1 && all[i].kernel && all[i].kernel != kernel) i++;
    if (all[i].kernel != kernel) all[i] = {kernel, 0};
    return &all[i].bytes;
}

/* kernel<<<shape, stream>>>(args…), early or after everything before it. */
template <typename... P, typename... A>
static lh_status lh_launch_kernel(lh_stream *stream, const char *name, lh_shape shape, int is_early,
                                  void (*kernel)(P...), A... args)
{
    if (!shape.blocks.x || !shape.blocks.y || !shape.blocks.z) return LH_OK;
    int64_t *allowed = lh_allowed_shared((const void *)kernel);
    if (shape.shared > LH_SHARED_PLAIN / 3 && shape.shared > *allowed) {
        LH_TRY(lh_cuda_check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared), name));
        *allowed = shape.shared;
    }
    if (is_early) /* a multiprocessor divides its memory anew only when no kernel runs on it */
        LH_TRY(lh_cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                  cudaSharedmemCarveoutMaxShared),
                             name));
#ifdef LH_SIMT
    LH_TRY(lh_cuda_check(
        simt_launch(lh_stream_cuda(stream), name,
                    simt_shape{shape.blocks, dim3((unsigned)shape.threads), (size_t)shape.shared, is_early != 0},
                    [=] { kernel(args...); }),
        name));
#else
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = shape.blocks;
    config.blockDim = dim3((unsigned)shape.threads);
    config.dynamicSmemBytes = (size_t)shape.shared;
    config.stream = lh_stream_cuda(stream);
    config.attrs = &early;
    config.numAttrs = is_early ? 1 : 0;
    LH_TRY(lh_cuda_check(cudaLaunchKernelEx(&config, kernel, P(args)...), name));
#endif
    return LH_OK;
}

/* kernel<<<shape, stream>>>(args…). Without blocks nothing happens. `name`: the operation, for messages. */
template <typename... P, typename... A>
static lh_status lh_launch(lh_stream *stream, const char *name, lh_shape shape, void (*kernel)(P...), A... args)
{
    return lh_launch_kernel(stream, name, shape, 0, kernel, args...);
}

/* The same for a kernel that calls lh_wait_before: it may start before the kernel before it has ended. */
template <typename... P, typename... A>
static lh_status lh_launch_early(lh_stream *stream, const char *name, lh_shape shape, void (*kernel)(P...), A... args)
{
    return lh_launch_kernel(stream, name, shape, lh_starts_early(stream), kernel, args...);
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
