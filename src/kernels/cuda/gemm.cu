/* The choice of a kernel for a matrix product; initial values; products in a fixed order. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/f8.cuh"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/cuda/blas.h"
}

/* y[t,o] = bias[o], or 0, or y[t,o] += it: 4 or 8 bytes per number. */
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
    lh_norm_gemm_args product = {};
    int there;
    if (a->tokens == 0 || a->out == 0) return LH_OK;
    if (a->in == 0) return begin(stream, a);
    if (!lh_gemm_is_plain(a) && (!a->w.format->by_rows || a->w.next)) return lh_gemm_packed(stream, a);
    if (a->order == LH_ORDER_FIXED) return lh_gemm_fixed(stream, a);
    if (a->w.format->by_rows) return lh_gemm_small(stream, a);
    product.gemm = *a;
    if (lh_gemm_streams(a)) return lh_gemm_stream(stream, "gemm", &product);
    if (a->tokens <= (a->type == LH_F32 ? LH_SMALL_F32 : LH_SMALL_BF16)) return lh_gemm_small(stream, a);
    LH_TRY(lh_blas_find(stream, &there));
    if (!there) return lh_gemm_fixed(stream, a);
    if (a->bias) LH_TRY(begin(stream, a));
    LH_TRY(lh_blas_gemm(stream, a, a->bias || a->adds ? 1.0f : 0.0f, LH_F32));
    return LH_OK;
}

/* A large product is rounded as cuBLAS writes it: 2 bytes per number; else 4 are written, 4 read and 2 written. */
lh_status lh_cuda_gemm_convert(lh_stream *stream, const lh_gemm_convert_args *a)
{
    lh_gemm_args g = a->gemm;
    const int is_empty = g.in == 0 || g.tokens == 0 || g.out == 0,
              is_plain = lh_gemm_is_plain(&g) && g.order == LH_ORDER_ANY && !g.bias && !g.adds,
              to_bf16 = g.type == LH_BF16 && a->convert.dst_type == LH_BF16;
    int there = 0;
    if (!is_empty && is_plain && to_bf16 && g.tokens > LH_STREAM_TOKENS) LH_TRY(lh_blas_find(stream, &there));
    if (!there) return lh_gemm_convert_in_turn(&lh_ops_cuda, stream, a);
    g.y = (float *)a->convert.dst;
    g.y_ld = a->convert.dst_ld;
    return lh_blas_gemm(stream, &g, 0.0f, LH_BF16);
}

/* ---- products in a fixed order ----
 *
 * A thread has 4 outputs of one or four tokens and one chain for each; a block shares 64 rows of w and 8 or 64 of x,
 * SLICE numbers of each at a time, through shared memory. It reads (64 + tokens) * in numbers for 64 * tokens outputs.
 */

enum { SLICE = 32, OUTS = 64, PER = 4, ACROSS = OUTS / PER, PAD = 4 };

/* Rows [first, first + ROWS) of a matrix, columns [column, column + n), transposed into to[column][row]. */
template <typename T, int ROWS, int THREADS>
static __device__ void load_slice(float (*to)[ROWS + PAD], const T *from, int64_t ld, int64_t rows, int n)
{
    int i = lh_lane();
    for (int r = lh_warp(); r < ROWS; r += THREADS / LH_WARP)
        to[i][r] = i < n && r < rows ? lh_number(from[r * ld + i]) : 0.0f;
}

template <int DEEP, int ROWS>
static __device__ __forceinline__ void multiply(float (&sum)[DEEP][PER], const float *x, const float *w)
{
#pragma unroll
    for (int r = 0; r < DEEP; r++) {
#pragma unroll
        for (int o = 0; o < PER; o++) sum[r][o] = fmaf(x[r], w[o], sum[r][o]);
    }
}

/* Weights as readers of slices: row o0 and the rows after it of a matrix, transposed as load_slice does. */
template <typename T>
struct plain_weights {
    typedef T type;
    template <int THREADS>
    static __device__ void load(float (*to)[OUTS + PAD], const lh_gemm_args &a, int64_t o0, int64_t i0, int n)
    {
        load_slice<T, OUTS, THREADS>(to, (const T *)a.w.data + o0 * a.w.ld + i0, a.w.ld, a.out - o0, n);
    }
};

template <typename T>
struct f8_weights {
    typedef T type;
    template <int THREADS>
    static __device__ void load(float (*to)[OUTS + PAD], const lh_gemm_args &a, int64_t o0, int64_t i0, int n)
    {
        const int i = lh_lane();
        for (int r = lh_warp(); r < OUTS; r += THREADS / LH_WARP)
            to[i][r] =
                i < n && o0 + r < a.out ? lh_rounded_to(lh_f8_value(&a.w, o0 + r, a.w.first + i0 + i), T()) : 0.0f;
    }
};

/* OUTS outputs from o0 on of DEEP * DOWN tokens from t0 on. DEEP: tokens of a thread; DOWN: threads along the tokens.
 */
template <typename W, int DEEP, int DOWN>
static __device__ __forceinline__ void multiply_tile(const lh_gemm_args &a, int64_t o0, int64_t t0)
{
    typedef typename W::type T;
    constexpr int ROWS = DEEP * DOWN, THREADS = ACROSS * DOWN;
    __shared__ __align__(16) float xs[SLICE][ROWS + PAD], ws[SLICE][OUTS + PAD];
    int across = (int)threadIdx.x % ACROSS * PER, down = (int)threadIdx.x / ACROSS * DEEP;
    float sum[DEEP][PER] = {};
    const T *x = (const T *)a.x + t0 * a.x_ld;
    for (int64_t i0 = 0; i0 < a.in; i0 += SLICE) {
        int n = a.in - i0 < SLICE ? (int)(a.in - i0) : (int)SLICE;
        __syncthreads(); /* the previous slice has been read */
        load_slice<T, ROWS, THREADS>(xs, x + i0, a.x_ld, a.tokens - t0, n);
        W::template load<THREADS>(ws, a, o0, i0, n);
        __syncthreads();
        if (n == SLICE) {
#pragma unroll
            for (int i = 0; i < SLICE; i++) multiply<DEEP, ROWS>(sum, &xs[i][down], &ws[i][across]);
        } else {
            for (int i = 0; i < n; i++) multiply<DEEP, ROWS>(sum, &xs[i][down], &ws[i][across]);
        }
    }
    for (int r = 0; r < DEEP; r++) {
        for (int o = 0; o < PER; o++) {
            int64_t t = t0 + down + r, at = o0 + across + o;
            if (t < a.tokens && at < a.out) lh_gemm_put(a, t, at, a.bias ? sum[r][o] + a.bias[at] : sum[r][o]);
        }
    }
}

template <typename W, int DEEP, int DOWN>
static __global__ void fixed_kernel(lh_gemm_args a)
{
    constexpr int ROWS = DEEP * DOWN;
    for (int64_t t0 = (int64_t)blockIdx.y * ROWS; t0 < a.tokens; t0 += (int64_t)gridDim.y * ROWS)
        multiply_tile<W, DEEP, DOWN>(a, (int64_t)blockIdx.x * OUTS, t0);
}

template <int DEEP, int DOWN>
static lh_status launch(lh_stream *stream, const lh_gemm_args *a)
{
    const int64_t most = 65535, tiles = (a->tokens + DEEP * DOWN - 1) / (DEEP * DOWN);
    lh_shape shape = {dim3((unsigned)((a->out + OUTS - 1) / OUTS), (unsigned)(tiles < most ? tiles : most)),
                      ACROSS * DOWN, 0};
    auto *kernel = a->w.format->by_rows ? a->type == LH_F32 ? fixed_kernel<f8_weights<float>, DEEP, DOWN>
                                                            : fixed_kernel<f8_weights<__nv_bfloat16>, DEEP, DOWN>
                   : a->type == LH_F32 ? fixed_kernel<plain_weights<float>, DEEP, DOWN>
                                        : fixed_kernel<plain_weights<__nv_bfloat16>, DEEP, DOWN>;
    return lh_launch(stream, "gemm", shape, kernel, *a);
}

lh_status lh_gemm_fixed(lh_stream *stream, const lh_gemm_args *a)
{
    return a->tokens <= 8 ? launch<1, 8>(stream, a) : launch<4, 16>(stream, a);
}

/* ---- the same for experts: blocks along their tiles ---- */

template <typename W, int DEEP, int DOWN>
static __global__ void expert_fixed_kernel(lh_expert_gemm_args a)
{
    lh_gemm_args g;
    if (lh_expert_tile<typename W::type, DEEP * DOWN>(&g, a, (int)blockIdx.x))
        multiply_tile<W, DEEP, DOWN>(g, (int64_t)blockIdx.y * OUTS, 0);
}

template <int DEEP, int DOWN>
static lh_status launch_experts(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tiles = lh_expert_tiles<DEEP * DOWN>(&a->routes), outs = (a->out + OUTS - 1) / OUTS;
    lh_shape shape = {dim3((unsigned)tiles, (unsigned)outs), ACROSS * DOWN, 0};
    auto *kernel = a->w.format->by_rows ? a->type == LH_F32 ? expert_fixed_kernel<f8_weights<float>, DEEP, DOWN>
                                                            : expert_fixed_kernel<f8_weights<__nv_bfloat16>, DEEP, DOWN>
                   : a->type == LH_F32 ? expert_fixed_kernel<plain_weights<float>, DEEP, DOWN>
                                        : expert_fixed_kernel<plain_weights<__nv_bfloat16>, DEEP, DOWN>;
    return lh_launch(stream, "expert_gemm", shape, kernel, *a);
}

lh_status lh_expert_gemm_fixed(lh_stream *stream, const lh_expert_gemm_args *a)
{
    return a->routes.tokens <= 8 ? launch_experts<1, 8>(stream, a) : launch_experts<4, 16>(stream, a);
}
