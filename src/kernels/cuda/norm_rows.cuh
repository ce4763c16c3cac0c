/* norm_rows.cuh - root-mean-square norm of a row by some threads, each with a strided subset of its fours. The order of
 * additions depends only on the number of threads and on dim. */
#ifndef LH_KERNELS_CUDA_NORM_ROWS_CUH
#define LH_KERNELS_CUDA_NORM_ROWS_CUH

#include "kernels/cuda/vector.cuh"

typedef struct lh_lanes {
    int64_t first, step; /* fours of this thread */
} lh_lanes;

/* Brings the weights of a norm into L2, by all threads of a block, before the block waits for the rows: the weights of
 * products have driven them out since the last step. */
static __device__ __forceinline__ void lh_prefetch_weights(const float *w, int64_t dim)
{
    const int line = 128 / (int)sizeof *w;
    for (int64_t i = (int64_t)threadIdx.x * line; i < dim; i += (int64_t)blockDim.x * line) {
#ifdef LH_SIMT
        (void)w;
#else
        asm volatile("prefetch.global.L2 [%0];" ::"l"(w + i));
#endif
    }
}

/* The sum over this thread's fours. */
static __device__ __forceinline__ float lh_squares_of(const float *x, int64_t dim, lh_lanes own, int width)
{
    float sum = 0;
    for (int64_t i = 4 * own.first; i < dim; i += 4 * own.step) {
        lh_four v = lh_get4(x + i, dim - i, width);
        for (int j = 0; j < 4; j++) sum = fmaf(v.at[j], v.at[j], sum);
    }
    return sum;
}

/* The mean of the squares of row t, from the given sums. */
static __device__ __forceinline__ float lh_mean_of_given(const lh_rmsnorm_args &a, int64_t t)
{
    float sum = 0;
    for (int64_t j = 0; j < a.parts; j++) sum = __fadd_rn(sum, a.squares[t * a.squares_ld + j]);
    return sum / (float)(a.parts * a.dim);
}

/* x * inverse * (offset + w) of four numbers. n: numbers up to the end of the row. */
static __device__ __forceinline__ lh_four lh_normed(lh_four x, const float *w, const lh_rmsnorm_args &a, float inverse,
                                                    int64_t n, int width)
{
    lh_four by = lh_get4(w, n, width);
    for (int j = 0; j < 4; j++) x.at[j] = __fmul_rn(__fmul_rn(x.at[j], inverse), a.offset + by.at[j]);
    return x;
}

/* y = x / sqrt(mean_square + eps) * (offset + w), this thread's part. */
template <typename Y>
static __device__ __forceinline__ void lh_norm_row(Y *y, const float *x, const float *w, const lh_rmsnorm_args &a,
                                                   float mean_square, lh_lanes own, int width)
{
    float inverse = 1.0f / sqrtf(mean_square + a.eps);
    for (int64_t i = 4 * own.first, n = a.dim - i; n > 0; i += 4 * own.step, n = a.dim - i)
        lh_put4(y + i, lh_normed(lh_get4(x + i, n, width), w + i, a, inverse, n, width), n, width);
}

/* Numbers moved in one access in rows of x and w. */
static inline int lh_norm_width(const lh_rmsnorm_args *a)
{
    return lh_width(a->x, a->x_ld, LH_F32) == 4 && lh_width(a->w, a->w_ld, LH_F32) == 4 &&
                   (a->heads == 1 || a->dim % 4 == 0)
               ? 4
               : 1;
}

#endif
