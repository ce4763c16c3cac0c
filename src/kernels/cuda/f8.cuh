/* f8.cuh - rows of f8_e4m3 weights (base/format.h) in registers. */
#ifndef LH_KERNELS_CUDA_F8_CUH
#define LH_KERNELS_CUDA_F8_CUH

#include "kernels/cuda/gemm.cuh"

extern "C" {
#include "kernels/packed.h"
}

/* A row from the first column of a product on. */
struct lh_f8_cursor {
    const uint8_t *blocks;
    int64_t skip; /* values before that column */
};

static __device__ __forceinline__ lh_f8_cursor lh_f8_cursor_at(const lh_matrix &w, int64_t row)
{
    const lh_f8_row from = lh_f8_row_at(&w, row, w.first);
    return {from.block, from.skip};
}

/* The number of the lowest code of a word, divided by 2^120. */
static __device__ __forceinline__ float lh_f8_small(unsigned code)
{
    return __uint_as_float((code & 0x80) << 24 | (code & 0x7f) << 20);
}

/* to = the values of N columns from column i on, a multiple of N; N is 4 or 8. */
template <int N>
static __device__ __forceinline__ void lh_f8_values(float (&to)[N], const lh_f8_cursor &row, int64_t i)
{
    const int64_t at = row.skip + i;
    const uint8_t *block = row.blocks + at / LH_F8_VALUES * LH_F8_BYTES;
    const unsigned *words = (const unsigned *)(block + sizeof(float) + at % LH_F8_VALUES);
    const float scale = __ldg((const float *)block);
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        const unsigned word = __ldg(words + j);
#pragma unroll
        for (int k = 0; k < 4; k++) to[4 * j + k] = scale * (lh_f8_small(word >> 8 * k) * 0x1p120f);
    }
}

/* f rounded to the type of the second argument. */
static __device__ __forceinline__ float lh_rounded_to(float f, float)
{
    return f;
}
static __device__ __forceinline__ float lh_rounded_to(float f, __nv_bfloat16)
{
    return lh_number(__float2bfloat16_rn(f));
}

#endif
