/* mma.cuh - products of small matrices on the tensor cores, of bf16 numbers and of f32 numbers as sums of bf16 parts.
 *
 * An f32 number is exactly the sum of three bf16 numbers: its upper 8 bits, the next 8 and the last 8. The product of
 * two such sums, without terms below 2^-24 of it, is six products of bf16 (one for two bf16 numbers, three for an f32
 * and a bf16 number): close to f32 arithmetic, at a multiple of its rate. A number that is infinite or NaN becomes NaN.
 *
 * In an m16n8k16 product lane 4 g + t holds rows g and g + 8 of the first matrix and column g of the second, of both k
 * = 2 t, 2 t + 1 (a word) and 2 t + 8, 2 t + 9 (a word); and of the result rows g and g + 8, columns 2 t, 2 t + 1. The
 * order of k is free, as long as both matrices agree: so a lane takes 8 adjacent numbers of a row (16 bytes of bf16) as
 * its words of two products. */
#ifndef LH_KERNELS_CUDA_MMA_CUH
#define LH_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/warp.cuh"

/* c += a b. c: [row g: columns 2 t, 2 t + 1; row g + 8]; a: [row g, row g + 8; the same 8 further on in k]. */
static __device__ __forceinline__ void lh_mma(float c[4], const unsigned a[4], const unsigned b[2])
{
#ifdef LH_SIMT
    simt_mma_bf16(c, a, b);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* The same over 32 columns: low, high: 16 bytes of rows g and g + 8 of a; b: 16 bytes of column g. */
static __device__ __forceinline__ void lh_mma_wide(float c[4], uint4 low, uint4 high, uint4 b)
{
    const unsigned rows[2][4] = {{low.x, high.x, low.y, high.y}, {low.z, high.z, low.w, high.w}};
    const unsigned cols[2][2] = {{b.x, b.y}, {b.z, b.w}};
    lh_mma(c, rows[0], cols[0]);
    lh_mma(c, rows[1], cols[1]);
}

/* Transposes a matrix of 8 x 8 bf16 numbers: lane 4 g + t holds 2 t and 2 t + 1 of row g, and gets those of column
 * g. */
static __device__ __forceinline__ unsigned lh_transposed(unsigned word)
{
#ifdef LH_SIMT
    return simt_transposed(word);
#else
    unsigned y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(word));
    return y;
#endif
}

/* Loads four matrices of 8 x 8 bf16 numbers from shared memory; lane 8 i + r has the address of row r of matrix i (16
 * bytes, aligned to 16). Lane 4 g + t gets 2 t and 2 t + 1 of row g of each. */
static __device__ __forceinline__ void lh_load_matrices(unsigned (&y)[4], const void *row)
{
#ifdef LH_SIMT
    simt_load_matrices(y, row);
#else
    unsigned from = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                 : "r"(from));
#endif
}

/* ---- asynchronous copies from device to shared memory ---- */

/* Copies 16 bytes, aligned to 16: the first `bytes` (0 to 16) are copied and the rest becomes 0. */
static __device__ __forceinline__ void lh_copy_async(void *shared, const void *src, int bytes)
{
#ifdef LH_SIMT
    simt_copy_async(shared, src, bytes);
#else
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
#endif
}

/* Copies 4 bytes, aligned to 4. */
static __device__ __forceinline__ void lh_copy_async_word(void *shared, const void *src)
{
#ifdef LH_SIMT
    simt_copy_async(shared, src, 4, 4);
#else
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(src) : "memory");
#endif
}

/* The copies begun since the last commit become a group. */
static __device__ __forceinline__ void lh_copy_commit(void)
{
#ifdef LH_SIMT
    simt_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for all but the last LEFT groups of this thread. */
template <int LEFT>
static __device__ __forceinline__ void lh_copy_wait(void)
{
#ifdef LH_SIMT
    simt_copy_wait(LEFT);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

#endif
