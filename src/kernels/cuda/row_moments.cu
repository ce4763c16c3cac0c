/* Sums of rows and of their outer products, in double: products of two numbers of f32 are exact there, so every result
 * has the bits of the definition. A block has 64 x 64 products of a head, a thread 4 x 4; rows go through shared memory
 * 16 at a time, in order. Bound by arithmetic: 2 * dim^2 operations a row and head, which devices of this kind do in
 * double at half the rate of f32. */
#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, TILE = 64, ROWS = 16, EACH = 4 };

template <typename T>
static __device__ __forceinline__ double row_number(const lh_row_moments_args &a, int64_t r, int64_t i, int64_t c)
{
    return r < a.rows && c < a.dim ? (double)lh_number(((const T *)a.x)[r * a.x_ld + i * a.dim + c]) : 0.0;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) row_products_kernel(lh_row_moments_args a)
{
    __shared__ double left[ROWS][TILE], right[ROWS][TILE];
    int64_t i = blockIdx.z, x0 = (int64_t)blockIdx.y * TILE, y0 = (int64_t)blockIdx.x * TILE;
    int x = (int)threadIdx.x / 16 * EACH, y = (int)threadIdx.x % 16;
    double sums[EACH][EACH] = {};
    for (int64_t first = 0; first < a.rows; first += ROWS) {
        __syncthreads();
        for (int n = (int)threadIdx.x; n < ROWS * TILE; n += THREADS) {
            left[n / TILE][n % TILE] = row_number<T>(a, first + n / TILE, i, x0 + n % TILE);
            right[n / TILE][n % TILE] = row_number<T>(a, first + n / TILE, i, y0 + n % TILE);
        }
        __syncthreads();
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int n = 0; n < EACH * EACH; n++)
                sums[n / EACH][n % EACH] =
                    fma(left[r][x + n / EACH], right[r][y + n % EACH * 16], sums[n / EACH][n % EACH]);
        }
    }
    for (int n = 0; n < EACH * EACH; n++) {
        int64_t row = x0 + x + n / EACH, col = y0 + y + n % EACH * 16;
        if (row < a.dim && col < a.dim) a.products[(i * a.dim + row) * a.dim + col] += sums[n / EACH][n % EACH];
    }
}

template <typename T>
static __global__ void row_sums_kernel(lh_row_moments_args a)
{
    for (int64_t c = lh_grid_first(); c < a.heads * a.dim; c += lh_grid_step()) {
        double sum = 0.0;
#pragma unroll 8
        for (int64_t r = 0; r < a.rows; r++) sum += (double)lh_number(((const T *)a.x)[r * a.x_ld + c]);
        a.sums[c] += sum;
    }
}

template <typename T>
static lh_status add_rows(lh_stream *stream, const lh_row_moments_args *a)
{
    unsigned tiles = (unsigned)((a->dim + TILE - 1) / TILE);
    lh_shape sums = {dim3(lh_blocks(a->heads * a->dim, LH_WARP)), LH_WARP, 0};
    if (a->sums) LH_TRY(lh_launch(stream, "row_moments", sums, row_sums_kernel<T>, *a));
    LH_TRY(lh_launch(stream, "row_moments", lh_shape{dim3(tiles, tiles, (unsigned)a->heads), THREADS, 0},
                     row_products_kernel<T>, *a));
    return LH_OK;
}

lh_status lh_cuda_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    return a->type == LH_F32 ? add_rows<float>(stream, a) : add_rows<__nv_bfloat16>(stream, a);
}
