/* q8.cuh - rows in 8 bits (kernels/q8.h), with neighbouring numbers of a row in each lane of a warp. */
#ifndef LH_KERNELS_CUDA_Q8_CUH
#define LH_KERNELS_CUDA_Q8_CUH

#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/q8.h"
}

/* x = lh_q8_hadamard of a row of `dim` numbers. A lane has N of them; a row begins at a lane that is a multiple of the
 * row's lanes, rounded up to a power of two. All lanes of the warp call it. */
template <int N>
static __device__ __forceinline__ void lh_hadamard(float (&x)[N], int dim)
{
    const int block = (int)lh_q8_hadamard_block(dim);
#pragma unroll
    for (int stride = 1; stride < N; stride *= 2) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i & stride || stride >= block) continue;
            const float a = x[i], b = x[i + stride];
            x[i] = a + b;
            x[i + stride] = a - b;
        }
    }
    for (int with = 1; with * N < block; with *= 2) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float other = __shfl_xor_sync(LH_ALL, x[i], with);
            x[i] = lh_lane() & with ? other - x[i] : x[i] + other;
        }
    }
}

/* x = lh_q8_hadamard_inverse of a row, in lanes as in lh_hadamard. */
template <int N>
static __device__ __forceinline__ void lh_hadamard_inverse(float (&x)[N], int dim)
{
    const float factor = 1.0f / (float)lh_q8_hadamard_block(dim);
    lh_hadamard(x, dim);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] *= factor;
}

/* ---- rows of a warp: eight numbers a lane ---- */

/* Numbers of a lane, maximum numbers of a row. */
enum { LH_OF_LANE = 8, LH_ROW_OF_WARP = LH_OF_LANE * LH_WARP };

/* x = the numbers of this lane from its first number `from` on, 0 after the row's last one. left: numbers of the row
 * from there on; width: as lh_width returns it. */
template <typename T>
static __device__ __forceinline__ void lh_get_of_lane(float (&x)[LH_OF_LANE], const T *from, int64_t left, int width)
{
#pragma unroll
    for (int i = 0; i < LH_OF_LANE; i += 4) {
        const lh_four four = lh_get4(from + i, left - i, width);
#pragma unroll
        for (int j = 0; j < 4; j++) x[i + j] = four.at[j];
    }
}

/* Stores the numbers of this lane, without those after the row's last one. */
template <typename T>
static __device__ __forceinline__ void lh_put_of_lane(T *to, const float (&x)[LH_OF_LANE], int64_t left, int width)
{
#pragma unroll
    for (int i = 0; i < LH_OF_LANE; i += 4)
        lh_put4(to + i, lh_four{{x[i], x[i + 1], x[i + 2], x[i + 3]}}, left - i, width);
}

/* lh_q8_row by a warp: codes and scale of the row x of `dim` numbers; x is overwritten. */
static __device__ __forceinline__ void lh_quantise(int8_t *codes, float *scale_of_row, float (&x)[LH_OF_LANE],
                                                   int64_t dim, int width)
{
    const int64_t first = LH_OF_LANE * lh_lane();
    float largest = 0.0f, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LH_OF_LANE; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
        sum += 0.0f * x[i]; /* NaN unless all are finite */
    }
    const float scale = (lh_warp_max(largest) + lh_warp_sum(sum)) / LH_Q8_MAX;
#pragma unroll
    for (int i = 0; i < LH_OF_LANE; i++) x[i] = lh_q8_code(x[i], scale);
    lh_put_of_lane(codes + first, x, dim - first, width);
    if (lh_lane() == 0) *scale_of_row = scale;
}

#endif
