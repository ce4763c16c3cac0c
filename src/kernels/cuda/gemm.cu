/* Which way a matrix product goes, and what it begins with. */
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/cuda/blas.h"
}

/* y[t,o] = bias[o], or 0, or y[t,o] += that: 4 or 8 bytes a number. */
static __global__ void begin_kernel(lh_gemm_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        for (int64_t o = 4 * lh_grid_first(); o < a.out; o += 4 * lh_grid_step()) {
            lh_four y = {{0, 0, 0, 0}}, bias = y;
            if (a.adds) y = lh_get4(a.y + t * a.y_ld + o, a.out - o, width);
            if (a.bias) bias = lh_get4(a.bias + o, a.out - o, width);
            for (int j = 0; j < 4; j++) y.at[j] += bias.at[j];
            lh_put4(a.y + t * a.y_ld + o, y, a.out - o, width);
        }
    }
}

static lh_status begin(lh_stream *stream, const lh_gemm_args *a)
{
    int is_wide = lh_width(a->y, a->y_ld, LH_F32) == 4 && lh_width(a->bias, 0, LH_F32) == 4;
    return lh_launch(stream, "gemm", lh_fours_shape(a->tokens, a->out), begin_kernel, *a, is_wide ? 4 : 1);
}

lh_status lh_cuda_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    int64_t small = a->type == LH_F32 ? LH_SMALL_F32 : LH_SMALL_BF16,
            small_mma = a->type == LH_F32 ? 0 : LH_SMALL_MMA_TOKENS;
    int there;
    if (a->tokens == 0 || a->out == 0) return LH_OK;
    if (a->in == 0) return begin(stream, a);
    if (a->order == LH_ORDER_FIXED) return lh_gemm_fixed(stream, a);
    if (a->tokens <= small) return lh_gemm_small(stream, a);
    if (a->tokens <= small_mma && lh_gemm_is_wide(a)) return lh_gemm_small_mma(stream, a);
    LH_TRY(lh_blas_find(stream, &there));
    if (!there) return lh_gemm_fixed(stream, a);
    if (a->bias) LH_TRY(begin(stream, a));
    LH_TRY(lh_blas_gemm(stream, a, a->bias || a->adds ? 1.0f : 0.0f, LH_F32));
    return LH_OK;
}
