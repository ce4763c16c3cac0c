/* cuda_runtime.h - CUDA C++ device code on the host, for tests (threads.cpp). A kernel runs block after block; the
 * threads of a block are fibers, and one runs until it ends or waits at a barrier or for its warp. The order of blocks,
 * and of the threads between two barriers, comes from LONGHAUL_SIMT_SEED: what depends on it is a race. Warp functions
 * want all 32 lanes. A barrier that not all threads reach, or that they reach at different lines, ends the program with
 * a message. Shared memory starts as NaN in every block. */
#ifndef LH_TESTS_SIMT_CUDA_RUNTIME_H
#define LH_TESTS_SIMT_CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

/* ---- where a thread is ---- */

struct simt_place {
    dim3 thread, block, block_dim, grid_dim;
    bool waits; /* the kernel started early, and this thread has not waited for the kernels before it */
};
extern simt_place *simt_here;
#define threadIdx (simt_here->thread)
#define blockIdx (simt_here->block)
#define blockDim (simt_here->block_dim)
#define gridDim (simt_here->grid_dim)
#define warpSize 32

/* ---- barriers and warps ---- */

void simt_barrier(const char *file, int line);
#define __syncthreads() simt_barrier(__FILE__, __LINE__)

/* Gives `bytes` <= 64 bytes to the warp and waits for all lanes: what lane i gave lies at [i * 64] until the next one.
 */
const unsigned char *simt_warp(const void *mine, int bytes);

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    (void)mask;
    simt_warp(nullptr, 0);
}

static inline int simt_lane(void)
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

template <typename T>
static inline T simt_from(T x, int lane)
{
    T y;
    const unsigned char *all = simt_warp(&x, sizeof x);
    memcpy(&y, all + lane * 64, sizeof y);
    return y;
}

template <typename T>
static inline T __shfl_sync(unsigned, T x, int lane, int width = 32)
{
    return simt_from(x, simt_lane() / width * width + (lane & (width - 1)));
}
template <typename T>
static inline T __shfl_xor_sync(unsigned, T x, int with, int width = 32)
{
    int lane = simt_lane(), other = lane ^ with;
    return simt_from(x, other / width <= lane / width ? other : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned, T x, unsigned by, int width = 32)
{
    int lane = simt_lane(), at = lane % width;
    return simt_from(x, at >= (int)by ? lane - (int)by : lane);
}
template <typename T>
static inline T __shfl_down_sync(unsigned, T x, unsigned by, int width = 32)
{
    int lane = simt_lane(), at = lane % width;
    return simt_from(x, at + (int)by < width ? lane + (int)by : lane);
}
static inline unsigned __ballot_sync(unsigned, int predicate)
{
    unsigned bits = 0;
    int is = predicate != 0;
    const unsigned char *all = simt_warp(&is, sizeof is);
    for (int i = 0; i < 32; i++) {
        int other;
        memcpy(&other, all + i * 64, sizeof other);
        bits |= (unsigned)other << i;
    }
    return bits;
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == 0xffffffffu;
}

/* ---- memory ---- */

void *simt_dynamic_shared(void);

/* Nothing runs at the same time. */
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}

template <typename T>
static inline T atomicAdd(T *at, T x)
{
    T old = *at;
    *at = old + x;
    return old;
}
template <typename T>
static inline T atomicMax(T *at, T x)
{
    T old = *at;
    *at = old > x ? old : x;
    return old;
}
template <typename T>
static inline T atomicMin(T *at, T x)
{
    T old = *at;
    *at = old < x ? old : x;
    return old;
}
template <typename T>
static inline T atomicOr(T *at, T x)
{
    T old = *at;
    *at = old | x;
    return old;
}
template <typename T>
static inline T atomicExch(T *at, T x)
{
    T old = *at;
    *at = x;
    return old;
}
template <typename T>
static inline T atomicCAS(T *at, T compare, T x)
{
    T old = *at;
    if (old == compare) *at = x;
    return old;
}
static inline unsigned atomicInc(unsigned *at, unsigned most)
{
    unsigned old = *at;
    *at = old >= most ? 0 : old + 1;
    return old;
}
template <typename T>
static inline T __ldg(const T *p)
{
    return *p;
}
template <typename T>
static inline T __ldcs(const T *p)
{
    return *p;
}
template <typename T>
static inline T __ldcg(const T *p)
{
    return *p;
}

/* ---- vectors ---- */

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y)
{
    return {x, y};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* ---- numbers ---- */

static inline unsigned __float_as_uint(float x)
{
    unsigned u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* Bytes of b:a by number; one digit of `which` (0 to 7) a byte. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned y = 0;
    for (int i = 0; i < 4; i++) y |= (unsigned)(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
    return y;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
/* Two products of 16-bit numbers and the lower or upper two bytes of b, and c. */
static inline int simt_dp2a(int a, int b, int c)
{
    return c + (int16_t)a * (int8_t)b + (int16_t)(a >> 16) * (int8_t)(b >> 8);
}
static inline int __dp2a_lo(int a, int b, int c)
{
    return simt_dp2a(a, b, c);
}
static inline int __dp2a_hi(int a, int b, int c)
{
    return simt_dp2a(a, b >> 16, c);
}
/* Rounded as written, never contracted. */
static inline float __fmul_rn(float a, float b)
{
    volatile float y = a * b;
    return y;
}
static inline float __fadd_rn(float a, float b)
{
    volatile float y = a + b;
    return y;
}
static inline double __dmul_rn(double a, double b)
{
    volatile double y = a * b;
    return y;
}
static inline double __dadd_rn(double a, double b)
{
    volatile double y = a + b;
    return y;
}
static inline int __float2int_rn(float x)
{
    return (int)__builtin_rintf(x);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
template <typename T>
static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <typename T>
static inline T max(T a, T b)
{
    return a < b ? b : a;
}

/* ---- tensor cores and copies that do not wait (tensor.cpp) ---- */

/* mma.sync.m16n8k16 of bf16: c += a * b, every lane with its share of the matrices as PTX lays them out. Sums are cut
 * to f32, towards 0, as the cards do. */
void simt_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2]);

/* movmatrix.trans of 8 x 8 numbers of 16 bits. */
unsigned simt_transposed(unsigned word);

/* ldmatrix.x4: row `row` of the lane's matrix; the lane gets its word of row lane / 4 of each. */
void simt_load_matrices(unsigned y[4], const void *row);

/* cp.async of `all` bytes, 4, 8 or 16, of which the first `bytes` come from src and the others are 0;
 * cp.async.commit_group; cp.async.wait_group. What is copied arrives with the wait, and is NaN until then. */
void simt_copy_async(void *dst, const void *src, int bytes, int all = 16);
void simt_copy_commit(void);
void simt_copy_wait(int groups_left);

/* ---- bulk and tensor copies (bulk.cpp) ---- */

/* The address within shared memory of dynamic shared memory. fence.proxy.async: what the thread has stored there is
 * ordered before copies and products. */
uint32_t simt_shared_address(const void *p);
void simt_async_fence(void);

/* mbarrier.init; fence.mbarrier_init; mbarrier.arrive, with .expect_tx of `bytes`; a wait for a phase. */
void simt_mbarrier_init(uint64_t *bar, int arrivals);
void simt_mbarrier_fence(void);
void simt_mbarrier_arrive(uint64_t *bar, int bytes);
void simt_mbarrier_wait(uint64_t *bar, int parity);

/* cp.async.bulk and cp.async.bulk.tensor from device to shared memory; from: [rank]. */
void simt_bulk_copy(void *dst, const void *src, int bytes, uint64_t *bar);
void simt_tensor_copy(void *dst, const struct CUtensorMap_st *map, int rank, const int *from, uint64_t *bar);

/* ---- products of warpgroups (wgmma.cpp) ---- */

/* wgmma.mma_async of bf16, m64n<cols>k16: d += a b, of every lane its share; keep = 0: d = a b. words: the lane's part
 * of a, NULL: a is a matrix in shared memory; b has rows across the common dimension if a is in registers, else along
 * it. The products are made when simt_wgmma_wait comes to their group; until then d is NaN. */
void simt_wgmma(float *d, int cols, const unsigned *words, uint64_t a, uint64_t b, int keep);
void simt_wgmma_fence(void);
void simt_wgmma_commit(void);
void simt_wgmma_wait(int groups_left);

/* ---- launches ---- */

/* kernel<<<grid, block, shared_bytes, stream>>>: `body` is one thread's call, `name` what it is counted by. An early
 * kernel (programmatic stream serialization) may start before the kernel before it has ended: simt_wait_before. */
struct simt_shape {
    dim3 grid, block;
    size_t shared_bytes;
    bool is_early = false;
};

/* griddepcontrol.wait */
static inline void simt_wait_before(void)
{
    simt_here->waits = false;
}

cudaError_t simt_launch(cudaStream_t stream, const char *name, const simt_shape &shape, std::function<void()> body);

/* Shared memory that a block may ask for (LONGHAUL_SIMT_SHARED, 227 KiB), and whether so much of it can be dynamic: how
 * much is static nobody knows here, 2 KiB are left to it. A launch with more is refused. */
size_t simt_shared_most(void);
cudaError_t simt_allow_shared(int bytes);

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum { cudaSharedmemCarveoutMaxShared = 100 };
template <typename F>
static inline cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute attribute, int value)
{
    return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize ? simt_allow_shared(value) : cudaSuccess;
}

#endif
