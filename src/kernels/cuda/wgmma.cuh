/* wgmma.cuh - products of matrices by a warpgroup (4 warps, the first one's index a multiple of 4) on the tensor cores
 * of compute capability 9.0 (PTX ISA 9.7.15): d[64, N] += a[64, 16] b[16, N] in bf16 with f32 sums, N = 64, 128, 256.
 * Files that use them are compiled for sm_90a alone.
 *
 * Operands in shared memory are tiles of 64 columns, swizzled as tensor copies leave them (lh_tile_piece).
 *
 * Lane 4 g + t of warp w has rows 16 w + g and 16 w + g + 8 of d, columns 8 b + 2 t and 8 b + 2 t + 1: d[4 b], d[4 b +
 * 1] and d[4 b + 2], d[4 b + 3]. The words of a in registers are as in an m16n8k16 product (mma.cuh).
 *
 * The products run by themselves: lh_wgmma_fence after the registers were written, some products, lh_wgmma_commit, and
 * lh_wgmma_wait before d is read or a and the tiles are written. The compiler moves no access
 * to registers past lh_wgmma_hold of them. */
#ifndef LH_KERNELS_CUDA_WGMMA_CUH
#define LH_KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/async.cuh"

/* A matrix operand at address `at` of shared memory; lead, stride in bytes. Rows along the common dimension (queries,
 * keys): stride: from 8 rows to the next 8; lead is not used. Rows across it (values): stride: from 8 rows to the next
 * 8; lead: from 64 columns to the next 64. */
static __device__ __forceinline__ uint64_t lh_wgmma_matrix(uint32_t at, uint32_t lead, uint32_t stride)
{
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}

static __device__ __forceinline__ void lh_wgmma_fence(void)
{
#ifdef LH_SIMT
    simt_wgmma_fence();
#else
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void lh_wgmma_commit(void)
{
#ifdef LH_SIMT
    simt_wgmma_commit();
#else
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Waits for all but the last LEFT groups. */
template <int LEFT>
static __device__ __forceinline__ void lh_wgmma_wait(void)
{
#ifdef LH_SIMT
    simt_wgmma_wait(LEFT);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}

template <int N>
static __device__ __forceinline__ void lh_wgmma_hold(float (&d)[N])
{
#ifdef LH_SIMT
    (void)d;
#else
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
#endif
}
template <int N>
static __device__ __forceinline__ void lh_wgmma_hold(uint32_t (&d)[N])
{
#ifdef LH_SIMT
    (void)d;
#else
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
#endif
}

/* Moves registers between warpgroups: each calls it once, in its own branch, with a multiple of 8. */
template <int N>
static __device__ __forceinline__ void lh_registers_fewer(void)
{
#ifndef LH_SIMT
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N>
static __device__ __forceinline__ void lh_registers_more(void)
{
#ifndef LH_SIMT
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

/* ---- d += a b ----
 *
 * lh_wgmma(d, a, b, keep): a, b in shared memory, both with rows along the common dimension; keep = 0: d = a b.
 * lh_wgmma(d, a, b): a in registers, b in shared memory with rows across the common dimension. */
#ifdef LH_SIMT
template <int N>
static inline void lh_wgmma(float (&d)[N], uint64_t a, uint64_t b, int keep)
{
    simt_wgmma(d, 2 * N, NULL, a, b, keep);
}
template <int N>
static inline void lh_wgmma(float (&d)[N], const uint32_t *a, uint64_t b)
{
    simt_wgmma(d, 2 * N, a, 0, b, 1);
}
#else

/* Names of operands, ten at a time; d as operands. */
#define LH_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define LH_NAMES_30 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," LH_TEN(1) "," LH_TEN(2)
#define LH_NAMES_32 LH_NAMES_30 ",%30,%31"
#define LH_NAMES_60 LH_NAMES_30 "," LH_TEN(3) "," LH_TEN(4) "," LH_TEN(5)
#define LH_NAMES_64 LH_NAMES_60 ",%60,%61,%62,%63"
#define LH_NAMES_90 LH_NAMES_60 "," LH_TEN(6) "," LH_TEN(7) "," LH_TEN(8)
#define LH_NAMES_120 LH_NAMES_90 "," LH_TEN(9) "," LH_TEN(10) "," LH_TEN(11)
#define LH_NAMES_128 LH_NAMES_120 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define LH_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LH_D16(i) LH_D4(i), LH_D4(i + 4), LH_D4(i + 8), LH_D4(i + 12)
#define LH_D32 LH_D16(0), LH_D16(16)
#define LH_D64 LH_D32, LH_D16(32), LH_D16(48)
#define LH_D128 LH_D64, LH_D16(64), LH_D16(80), LH_D16(96), LH_D16(112)

/* Products with n columns, d of `count` registers, which are operands 0 to count - 1; o0 to o5: the next operands. */
#define LH_WGMMA(n, count, o0, o1, o2, o3, o4, o5)                                                      \
    static __device__ __forceinline__ void lh_wgmma(float(&d)[count], uint64_t a, uint64_t b, int keep) \
    {                                                                                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o2 ", 0;\n"                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" LH_NAMES_##count      \
                     "}, %" #o0 ", %" #o1 ", p, 1, 1, 0, 0;\n}"                                         \
                     : LH_D##count                                                                      \
                     : "l"(a), "l"(b), "r"(keep));                                                      \
    }                                                                                                   \
    static __device__ __forceinline__ void lh_wgmma(float(&d)[count], const uint32_t *a, uint64_t b)    \
    {                                                                                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o5 ", 0;\n"                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" LH_NAMES_##count      \
                     "}, {%" #o0 ",%" #o1 ",%" #o2 ",%" #o3 "}, %" #o4 ", p, 1, 1, 1;\n}"               \
                     : LH_D##count                                                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                     \
    }
LH_WGMMA(64, 32, 32, 33, 34, 35, 36, 37)
LH_WGMMA(128, 64, 64, 65, 66, 67, 68, 69)
LH_WGMMA(256, 128, 128, 129, 130, 131, 132, 133)
#undef LH_WGMMA
#endif

#endif
