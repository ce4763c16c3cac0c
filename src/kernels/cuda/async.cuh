/* async.cuh - bulk and tensor copies from device to shared memory, which a multiprocessor of compute capability 9.0
 * does by itself, and the mbarriers at which their bytes arrive (PTX ISA 9.7.9.25, 9.7.13.15).
 *
 * A phase of an mbarrier completes when all its arrivals and all the bytes that it expects are there; the next phase
 * begins by itself. A ring of buffers has two mbarriers a stage: the copying thread expects the bytes of a copy at
 * `full` and waits for the readers' arrivals at `empty` before it copies again. The functions compile for every
 * device, and trap below 9.0: the host chooses kernels by lh_cuda_capability. */
#ifndef LH_KERNELS_CUDA_ASYNC_CUH
#define LH_KERNELS_CUDA_ASYNC_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

extern "C" {
#include "device/cuda.h"
}

/* Instructions of compute capability 9.0. */
#if defined(LH_SIMT)
#define LH_ASM_90(...)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define LH_ASM_90(...) asm volatile(__VA_ARGS__)
#else
#define LH_ASM_90(...) __trap()
#endif

/* The address within shared memory of a pointer to it. */
static __device__ __forceinline__ uint32_t lh_shared_address(const void *p)
{
#ifdef LH_SIMT
    return simt_shared_address(p);
#else
    return (uint32_t)__cvta_generic_to_shared(p);
#endif
}

/* Orders this thread's ordinary accesses to shared memory before later accesses by copies and tensor cores; after it,
 * a barrier of the block. */
static __device__ __forceinline__ void lh_async_fence(void)
{
#ifdef LH_SIMT
    simt_async_fence();
#else
    LH_ASM_90("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- mbarriers ---- */

/* A phase of `bar` has so many arrivals. One thread makes the mbarriers of a block, then lh_mbarrier_fence, then a
 * barrier of the block. */
static __device__ __forceinline__ void lh_mbarrier_init(uint64_t *bar, int arrivals)
{
#ifdef LH_SIMT
    simt_mbarrier_init(bar, arrivals);
#else
    LH_ASM_90("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(lh_shared_address(bar)), "r"(arrivals) : "memory");
#endif
}

/* Makes the mbarriers that this thread has made visible to copies. */
static __device__ __forceinline__ void lh_mbarrier_fence(void)
{
#ifdef LH_SIMT
    simt_mbarrier_fence();
#else
    LH_ASM_90("fence.mbarrier_init.release.cluster;" ::: "memory");
    lh_async_fence();
#endif
}

static __device__ __forceinline__ void lh_mbarrier_arrive(uint64_t *bar)
{
#ifdef LH_SIMT
    simt_mbarrier_arrive(bar, 0);
#else
    LH_ASM_90("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(lh_shared_address(bar)) : "memory");
#endif
}

/* Arrives, and adds the bytes of copies to those that the phase expects: less than 2^20 a phase. */
static __device__ __forceinline__ void lh_mbarrier_expect(uint64_t *bar, int bytes)
{
#ifdef LH_SIMT
    simt_mbarrier_arrive(bar, bytes);
#else
    LH_ASM_90("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(lh_shared_address(bar)), "r"(bytes)
              : "memory");
#endif
}

/* Waits until the phase with this parity (0, 1, 0, … from the first) has completed; at most the next phase may have
 * begun. Each attempt suspends the thread for up to some microseconds; a phase that does not complete in 2^21 attempts
 * is a mistake: traps, so that the launch fails and nothing hangs. */
static __device__ __forceinline__ void lh_mbarrier_wait(uint64_t *bar, int parity)
{
#ifdef LH_SIMT
    simt_mbarrier_wait(bar, parity);
#else
    const uint32_t at = lh_shared_address(bar);
#pragma unroll 1
    for (int i = 0; i < 1 << 21; i++) {
        uint32_t done = 0;
        LH_ASM_90("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                  : "=r"(done)
                  : "r"(at), "r"(parity)
                  : "memory");
        if (done) return;
    }
    __trap();
#endif
}

/* ---- copies: one thread issues each ---- */

/* A hint for L2: the bytes are not read again. */
static __device__ __forceinline__ uint64_t lh_evict_first(void)
{
    uint64_t hint = 0;
    LH_ASM_90("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(hint));
    return hint;
}

/* Copies `bytes` (a multiple of 16, both addresses aligned to 16), which arrive at `bar`. */
static __device__ __forceinline__ void lh_bulk_copy(void *shared, const void *src, int bytes, uint64_t *bar)
{
#ifdef LH_SIMT
    simt_bulk_copy(shared, src, bytes, bar);
#else
    LH_ASM_90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                  lh_shared_address(shared)),
              "l"(src), "r"(bytes), "r"(lh_shared_address(bar))
              : "memory");
#endif
}

/* The same, with lh_evict_first(). */
static __device__ __forceinline__ void lh_bulk_copy_hint(void *shared, const void *src, int bytes, uint64_t *bar,
                                                         uint64_t hint)
{
#ifdef LH_SIMT
    (void)hint;
    simt_bulk_copy(shared, src, bytes, bar);
#else
    LH_ASM_90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
              "%4;" ::"r"(lh_shared_address(shared)),
              "l"(src), "r"(bytes), "r"(lh_shared_address(bar)), "l"(hint)
              : "memory");
#endif
}

/* Tiles of matrices: rows of 64 columns of bf16 numbers, with a swizzle of 128 bytes: piece p of 16 bytes of row r is
 * at r * 128 + (p ^ r % 8) * 16. Tiles are aligned to the pattern of the swizzle, 1024 bytes. */
enum { LH_TILE_COLUMNS = 64, LH_TILE_ROW = 128 /* bytes */, LH_TILE_ALIGNED = 1024 };

/* The place of piece e (8 numbers) of row `row` of a matrix in tiles with `tile` bytes each. */
static __device__ __forceinline__ uint4 *lh_tile_piece(unsigned char *matrix, int tile, int row, int e)
{
    return (uint4 *)(matrix + e / 8 * tile + row * LH_TILE_ROW) + (e ^ row) % 8;
}

/* Maps a matrix of bf16 numbers, [rows, columns] in `shape`, rows `ld` apart, for copies of such tiles with `box_rows`
 * rows. The device has maps (lh_cuda_maps). */
static inline CUresult lh_map_tiles(const lh_stream *stream, CUtensorMap *map, const void *at, const int64_t shape[2],
                                    int64_t ld, int64_t box_rows)
{
    const cuuint64_t dims[] = {(cuuint64_t)shape[1], (cuuint64_t)shape[0]},
                     strides[] = {(cuuint64_t)(shape[0] == 1 ? shape[1] : ld) * 2};
    const cuuint32_t box[] = {LH_TILE_COLUMNS, (cuuint32_t)box_rows}, steps[] = {1, 1};
    return lh_cuda_maps(stream)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)at, dims, strides, box, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Copies a box of a tensor from number (x, y) or (x, y, z) on; numbers outside the tensor are 0, and count as bytes
 * that arrive. `shared`: aligned to 128, with a swizzle of 128 bytes to 1024. The map is a parameter of the
 * kernel (__grid_constant__). */
static __device__ __forceinline__ void lh_tensor_copy(void *shared, const CUtensorMap *map, int x, int y, uint64_t *bar)
{
#ifdef LH_SIMT
    const int at[] = {x, y};
    simt_tensor_copy(shared, map, 2, at, bar);
#else
    LH_ASM_90("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
              "[%2];" ::"r"(lh_shared_address(shared)),
              "l"(map), "r"(lh_shared_address(bar)), "r"(x), "r"(y)
              : "memory");
#endif
}
/* The same, with lh_evict_first(). */
static __device__ __forceinline__ void lh_tensor_copy_hint(void *shared, const CUtensorMap *map, int x, int y,
                                                           uint64_t *bar, uint64_t hint)
{
#ifdef LH_SIMT
    const int at[] = {x, y};
    (void)hint;
    simt_tensor_copy(shared, map, 2, at, bar);
#else
    LH_ASM_90(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
        "%4}], [%2], %5;" ::"r"(lh_shared_address(shared)),
        "l"(map), "r"(lh_shared_address(bar)), "r"(x), "r"(y), "l"(hint)
        : "memory");
#endif
}
static __device__ __forceinline__ void lh_tensor_copy(void *shared, const CUtensorMap *map, int x, int y, int z,
                                                      uint64_t *bar)
{
#ifdef LH_SIMT
    const int at[] = {x, y, z};
    simt_tensor_copy(shared, map, 3, at, bar);
#else
    LH_ASM_90("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
              "[%2];" ::"r"(lh_shared_address(shared)),
              "l"(map), "r"(lh_shared_address(bar)), "r"(x), "r"(y), "r"(z)
              : "memory");
#endif
}

#endif
