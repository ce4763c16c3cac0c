/* Small-M GEMM (gemm_small.cuh), of one matrix or of experts, on the cores and on the tensor cores. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/gemm_small.cuh"
#include "kernels/cuda/mma.cuh"

/* LH_SMALL_ROWS outputs from o0 on. TOKENS >= the number of tokens; the last token stands in for missing ones, and the
 * last output for missing outputs. */
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

/* ---- experts, with at most one tile each: blocks along the outputs ---- */

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

/* ---- on the tensor cores: more tokens than cores can multiply while the weights arrive ----
 *
 * 16 outputs and 8 tokens at a time. A block has OUTS outputs, and its warps take turns along the rows, LOADS times 64
 * bytes per output and turn. A lane loads 16 bytes of two outputs' rows and of one or two tokens' rows, which are its
 * parts of two products: any order of columns is valid as long as weights and tokens agree. All loads of a turn are in
 * flight together. Bytes: out * in * 2. */

enum { OUTS = 16, TOKENS = 8, WARPS = 8, EACH = 8, ACROSS = 4 * EACH, LOADS = 4, TURN = LOADS * ACROSS };

/* One turn: loads everything, then multiplies. IS_WHOLE: the row has all columns; else `left` columns from w and x on,
 * and 0 after them. */
template <int GROUPS, int IS_WHOLE>
static __device__ __forceinline__ void add_turn(float (&c)[GROUPS][4], const __nv_bfloat16 *const (&w)[2],
                                                const __nv_bfloat16 *const (&x)[GROUPS], int64_t at, int64_t left)
{
    uint4 ws[LOADS][2] = {}, xs[LOADS][GROUPS] = {};
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
        if (!IS_WHOLE && l * ACROSS >= left) break;
        ws[l][0] = lh_load_once(w[0] + at + l * ACROSS);
        ws[l][1] = lh_load_once(w[1] + at + l * ACROSS);
#pragma unroll
        for (int t = 0; t < GROUPS; t++) xs[l][t] = *(const uint4 *)(x[t] + at + l * ACROSS);
    }
    if (!IS_WHOLE) __syncwarp();
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
#pragma unroll
        for (int t = 0; t < GROUPS; t++) lh_mma_wide(c[t], ws[l][0], ws[l][1], xs[l][t]);
    }
}

/* The weight rows of a block: OUTS / 2 from first[0] on and as many from first[1] on, below end[]. */
typedef struct rows_of {
    int64_t first[2], end[2];
} rows_of;

/* The output of token threadIdx.x / OUTS and row threadIdx.x % OUTS, for GROUPS of TOKENS tokens. The last row stands
 * in for missing rows. */
template <int GROUPS>
static __device__ __forceinline__ float multiply(const lh_gemm_args &a, const rows_of &rows)
{
    typedef __nv_bfloat16 bf16;
    __shared__ float parts[WARPS][GROUPS * TOKENS][OUTS];
    int64_t g = lh_lane() / 4, mine = lh_lane() % 4 * EACH, i = (int64_t)lh_warp() * TURN;
    const bf16 *x[GROUPS], *w[2];
    float c[GROUPS][4] = {};
#pragma unroll
    for (int r = 0; r < 2; r++)
        w[r] =
            (const bf16 *)a.w + (rows.first[r] + g < rows.end[r] ? rows.first[r] + g : rows.end[r] - 1) * a.w_ld + mine;
#pragma unroll
    for (int t = 0; t < GROUPS; t++)
        x[t] = (const bf16 *)a.x + (g + TOKENS * t < a.tokens ? g + TOKENS * t : a.tokens - 1) * a.x_ld + mine;
    for (; i + TURN <= a.in; i += WARPS * TURN) add_turn<GROUPS, 1>(c, w, x, i, TURN);
    if (i < a.in) add_turn<GROUPS, 0>(c, w, x, i, a.in - i - mine);
#pragma unroll
    for (int n = 0; n < 4 * GROUPS; n++)
        parts[lh_warp()][n / 4 * TOKENS + lh_lane() % 4 * 2 + n % 2][g + n % 4 / 2 * 8] = c[n / 4][n % 4];
    __syncthreads();
    int t = (int)threadIdx.x / OUTS, r = (int)threadIdx.x % OUTS;
    int64_t o = (r < OUTS / 2 ? rows.first[0] : rows.first[1]) + r % (OUTS / 2);
    if (t >= a.tokens || o >= (r < OUTS / 2 ? rows.end[0] : rows.end[1])) return 0.0f;
    float y = a.bias ? a.bias[o] : 0.0f;
    for (int k = 0; k < WARPS; k++) y += parts[k][t][r];
    return y;
}

/* OUTS outputs from o0 on. */
template <int GROUPS>
static __device__ __forceinline__ void mma_multiply_rows(const lh_gemm_args &a, int64_t o0)
{
    float y = multiply<GROUPS>(a, rows_of{{o0, o0 + OUTS / 2}, {a.out, a.out}});
    int64_t t = threadIdx.x / OUTS, o = o0 + threadIdx.x % OUTS;
    if (t < a.tokens && o < a.out) lh_gemm_put(a, t, o, y);
}

template <int GROUPS>
static __global__ void __launch_bounds__(WARPS *LH_WARP) gemm_small_mma_kernel(lh_gemm_args a)
{
    mma_multiply_rows<GROUPS>(a, (int64_t)blockIdx.x * OUTS);
}

lh_status lh_gemm_small_mma(lh_stream *stream, const lh_gemm_args *a)
{
    lh_shape shape = {dim3((unsigned)((a->out + OUTS - 1) / OUTS)), WARPS * LH_WARP, 0};
    return lh_launch(stream, "gemm", shape, a->tokens <= TOKENS ? gemm_small_mma_kernel<1> : gemm_small_mma_kernel<2>,
                     *a);
}

/* ---- with a gate: OUTS / 2 gates, and the values that they multiply ---- */

template <int GROUPS>
static __global__ void __launch_bounds__(WARPS *LH_WARP) gated_small_mma_kernel(lh_gemm_args a, lh_gated_args gated)
{
    int64_t o0 = (int64_t)blockIdx.x * (OUTS / 2), t = threadIdx.x / OUTS, r = threadIdx.x % OUTS;
    float y = multiply<GROUPS>(a, rows_of{{o0, gated.dim + o0}, {gated.dim, a.out}});
    float other = __shfl_down_sync(LH_ALL, y, OUTS / 2);
    if (t < a.tokens && r < OUTS / 2 && o0 + r < gated.dim) lh_gated_put(gated, t, o0 + r, y, other);
}

lh_status lh_gated_small_mma(lh_stream *stream, const lh_gemm_args *a, const lh_gated_args *gated)
{
    lh_shape shape = {dim3((unsigned)((gated->dim + OUTS / 2 - 1) / (OUTS / 2))), WARPS * LH_WARP, 0};
    auto *kernel = a->tokens <= TOKENS ? gated_small_mma_kernel<1> : gated_small_mma_kernel<2>;
    return lh_launch(stream, "norm_gemm", shape, kernel, *a, *gated);
}

/* ---- experts, with at most one tile each: blocks along the outputs ---- */

template <int GROUPS>
static __global__ void __launch_bounds__(WARPS *LH_WARP) expert_small_mma_kernel(lh_expert_gemm_args a)
{
    lh_gemm_args g;
    if (lh_expert_tile<__nv_bfloat16, GROUPS * TOKENS>(&g, a, (int)blockIdx.y))
        mma_multiply_rows<GROUPS>(g, (int64_t)blockIdx.x * OUTS);
}

lh_status lh_expert_gemm_small_mma(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tiles = lh_expert_tiles<LH_SMALL_MMA_TOKENS>(&a->routes);
    lh_shape shape = {dim3((unsigned)((a->out + OUTS - 1) / OUTS), (unsigned)tiles), WARPS * LH_WARP, 0};
    auto *kernel = a->routes.tokens <= TOKENS ? expert_small_mma_kernel<1> : expert_small_mma_kernel<2>;
    return lh_launch(stream, "expert_gemm", shape, kernel, *a);
}
