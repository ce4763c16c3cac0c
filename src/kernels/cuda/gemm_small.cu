/* Small-M GEMM (gemm_small.cuh), of one matrix or of experts. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/gemm_small.cuh"

/* LH_SMALL_ROWS outputs from o0 on. TOKENS >= the tokens there are, of which the last stands for those that are not;
 * the last output alike. */
template <typename T, int TOKENS, int IS_WIDE>
static __device__ __forceinline__ void multiply_rows(const lh_gemm_args &a, int64_t o0)
{
    lh_small_rows<T, TOKENS> f;
    f.in = a.in;
#pragma unroll
    for (int r = 0; r < LH_SMALL_ROWS; r++) f.w[r] = (const T *)a.w + (o0 + r < a.out ? o0 + r : a.out - 1) * a.w_ld;
#pragma unroll
    for (int t = 0; t < TOKENS; t++) f.x[t] = (const T *)a.x + (t < a.tokens ? t : a.tokens - 1) * a.x_ld;
    float product = lh_small_product<IS_WIDE>(f);
    int n = (int)threadIdx.x, t = n / LH_SMALL_ROWS;
    int64_t o = o0 + n % LH_SMALL_ROWS;
    if (n >= LH_SMALL_ROWS * TOKENS || t >= a.tokens || o >= a.out) return;
    lh_gemm_put(a, t, o, (a.bias ? a.bias[o] : 0.0f) + product);
}

template <typename T, int TOKENS, int IS_WIDE>
static __global__ void gemm_small_kernel(lh_gemm_args a)
{
    multiply_rows<T, TOKENS, IS_WIDE>(a, (int64_t)blockIdx.x * LH_SMALL_ROWS);
}

template <typename T, int MOST, int IS_WIDE>
static lh_status launch(lh_stream *stream, const lh_gemm_args *a)
{
    lh_shape shape = {dim3((unsigned)((a->out + LH_SMALL_ROWS - 1) / LH_SMALL_ROWS)), LH_SMALL_THREADS, 0};
    auto *kernel = a->tokens == 1   ? gemm_small_kernel<T, 1, IS_WIDE>
                   : a->tokens == 2 ? gemm_small_kernel<T, 2, IS_WIDE>
                   : a->tokens <= 4 ? gemm_small_kernel<T, 4, IS_WIDE>
                                    : gemm_small_kernel<T, MOST, IS_WIDE>;
    return lh_launch(stream, "gemm", shape, kernel, *a);
}

lh_status lh_gemm_small(lh_stream *stream, const lh_gemm_args *a)
{
    typedef __nv_bfloat16 bf16;
    if (a->type == LH_F32)
        return lh_gemm_is_wide(a) ? launch<float, LH_SMALL_F32, 1>(stream, a)
                                  : launch<float, LH_SMALL_F32, 0>(stream, a);
    return lh_gemm_is_wide(a) ? launch<bf16, LH_SMALL_BF16, 1>(stream, a) : launch<bf16, LH_SMALL_BF16, 0>(stream, a);
}

/* ---- of experts, each of which has one tile at most: blocks lie along its outputs ---- */

template <typename T, int TOKENS, int IS_WIDE>
static __global__ void expert_small_kernel(lh_expert_gemm_args a)
{
    lh_gemm_args g;
    if (lh_expert_tile<T, TOKENS>(&g, a, (int)blockIdx.y))
        multiply_rows<T, TOKENS, IS_WIDE>(g, (int64_t)blockIdx.x * LH_SMALL_ROWS);
}

template <typename T, int MOST, int IS_WIDE>
static lh_status launch_experts(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tokens = a->routes.tokens, tiles = lh_expert_tiles<MOST>(&a->routes);
    lh_shape shape = {dim3((unsigned)((a->out + LH_SMALL_ROWS - 1) / LH_SMALL_ROWS), (unsigned)tiles), LH_SMALL_THREADS,
                      0};
    auto *kernel = tokens == 1   ? expert_small_kernel<T, 1, IS_WIDE>
                   : tokens == 2 ? expert_small_kernel<T, 2, IS_WIDE>
                   : tokens <= 4 ? expert_small_kernel<T, 4, IS_WIDE>
                                 : expert_small_kernel<T, MOST, IS_WIDE>;
    return lh_launch(stream, "expert_gemm", shape, kernel, *a);
}

lh_status lh_expert_gemm_small(lh_stream *stream, const lh_expert_gemm_args *a, int is_wide)
{
    typedef __nv_bfloat16 bf16;
    if (a->type == LH_F32)
        return is_wide ? launch_experts<float, LH_SMALL_F32, 1>(stream, a)
                       : launch_experts<float, LH_SMALL_F32, 0>(stream, a);
    return is_wide ? launch_experts<bf16, LH_SMALL_BF16, 1>(stream, a)
                   : launch_experts<bf16, LH_SMALL_BF16, 0>(stream, a);
}
