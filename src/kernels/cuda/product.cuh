/* product.cuh - tiles of products of vectors, in f32: a block's part of a matrix product with results that are used
 * immediately and never stored. A block of 128 threads has 64 rows and loops over columns 128 at a time; a thread
 * has 8 x 8 products, each one chain of fused multiply-adds over the depth, so the bits of a product depend only on
 * its two vectors. Depth passes through shared memory 16 numbers at a time, 13 KiB, with the next ones in flight in
 * registers. */
#ifndef LH_KERNELS_CUDA_PRODUCT_CUH
#define LH_KERNELS_CUDA_PRODUCT_CUH

#include "kernels/cuda/entries.cuh"

enum { PRODUCT_THREADS = 128, PRODUCT_ROWS = 64, PRODUCT_COLS = 128, PRODUCT_DEPTH = 16, PRODUCT_EACH = 8 };

typedef struct lh_product_room {
    __align__(16) float rows[PRODUCT_DEPTH][PRODUCT_ROWS + 4], cols[PRODUCT_DEPTH][PRODUCT_COLS + 4];
} lh_product_room;

/* Operands of a thread: `row`: row threadIdx.x % 64 of the tile, or NULL; cols: [count, depth] with ld. */
template <typename R, typename C>
struct lh_factors {
    const R *row;
    const C *cols;
    int64_t count, ld, depth;
};

/* The n-th row and column of this thread in a tile. */
static __device__ __forceinline__ int lh_product_row(int n)
{
    return (int)threadIdx.x / 16 * PRODUCT_EACH + n;
}

static __device__ __forceinline__ int lh_product_col(int n)
{
    return (int)threadIdx.x % 16 * 4 + n / 4 * 64 + n % 4;
}

static __device__ __forceinline__ void lh_product_step(float (&sums)[8][8], const lh_product_room &room, int k)
{
    static_assert(alignof(lh_product_room) == sizeof(float4) && sizeof room.rows[0] % sizeof(float4) == 0 &&
                      sizeof room.cols[0] % sizeof(float4) == 0,
                  "rows are read four numbers at a time");
    float x[8], y[8];
    int row = lh_product_row(0), col = lh_product_col(0);
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        float4 a = *(const float4 *)&room.rows[k][row + i], b = *(const float4 *)&room.cols[k][col + i * 16];
        x[i] = a.x, x[i + 1] = a.y, x[i + 2] = a.z, x[i + 3] = a.w;
        y[i] = b.x, y[i + 1] = b.y, y[i + 2] = b.z, y[i + 3] = b.w;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
    }
}

/* sums[i][j] = the product of this thread's row i and column first + lh_product_col(j). All threads of the block. */
template <typename R, typename C>
static __device__ __forceinline__ void lh_product_tile(float (&sums)[8][8], const lh_factors<R, C> &f, int64_t first,
                                                       lh_product_room *room)
{
    float row[8], col[16];
    int at = (int)threadIdx.x % PRODUCT_ROWS, half = (int)threadIdx.x / PRODUCT_ROWS * 8, mine = (int)threadIdx.x;
    const R *rows = f.row ? f.row + half : NULL;
    const C *cols = first + mine < f.count ? f.cols + (first + mine) * f.ld : NULL;
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i / 8][i % 8] = 0.0f;
    lh_load_many(row, rows, f.depth - half);
    lh_load_many(col, cols, f.depth);
    for (int64_t k = 0; k < f.depth; k += PRODUCT_DEPTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) room->rows[half + i][at] = row[i];
#pragma unroll
        for (int i = 0; i < 16; i++) room->cols[i][mine] = col[i];
        __syncthreads();
        int64_t next = k + PRODUCT_DEPTH;
        if (next < f.depth) {
            lh_load_many(row, rows ? rows + next : NULL, f.depth - half - next);
            lh_load_many(col, cols ? cols + next : NULL, f.depth - next);
        }
#pragma unroll
        for (int i = 0; i < PRODUCT_DEPTH; i++) lh_product_step(sums, *room, i);
    }
}

/* The sum over the 16 threads with the same rows; all of them get it. */
template <typename T>
static __device__ __forceinline__ T lh_product_across(T x)
{
    for (int with = 8; with > 0; with /= 2) x += __shfl_xor_sync(LH_ALL, x, with);
    return x;
}

#endif
