/* Small-M GEMM: products of a few tokens with large weights, as in decoding: the time is that of reading the weights. A
 * block owns ROWS outputs and its warps take turns along them, 512 bytes a row and turn, 16 a lane: so ROWS loads of
 * weights and one a token of x, which L1 has, are under way for every lane, with one or two tokens of two turns at
 * once. A lane adds up its part of all ROWS x TOKENS outputs, then the lanes join theirs, then the warps. Bytes: out *
 * in * 2 or 4.
 */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/vector.cuh"

enum { ROWS = 4, WARPS = 4, THREADS = WARPS * LH_WARP };

/* 16 bytes of a row, as words of one f32 or two bf16 numbers. */
struct pack {
    unsigned word[4];
};

static __device__ __forceinline__ pack pack_of(uint4 x)
{
    return {{x.x, x.y, x.z, x.w}};
}

/* The same where rows do not lie on 16 bytes or end between: number by number, 0 at n and after. */
static __device__ pack gather(const float *p, int64_t n)
{
    pack x = {};
    for (int j = 0; j < 4; j++) x.word[j] = j < n ? __float_as_uint(p[j]) : 0;
    return x;
}
static __device__ pack gather(const __nv_bfloat16 *p, int64_t n)
{
    pack x = {};
    for (int j = 0; j < 4; j++)
        x.word[j] = lh_word(2 * j < n ? lh_number(p[2 * j]) : 0, 2 * j + 1 < n ? lh_number(p[2 * j + 1]) : 0);
    return x;
}

static __device__ __forceinline__ float dot(unsigned x, unsigned w, float sum, float)
{
    return fmaf(__uint_as_float(x), __uint_as_float(w), sum);
}
static __device__ __forceinline__ float dot(unsigned x, unsigned w, float sum, __nv_bfloat16)
{
    return fmaf(lh_high(x), lh_high(w), fmaf(lh_low(x), lh_low(w), sum));
}

/* Adds sum[0 .. N - 1] over the lanes. Halves change hands, so that a lane soon holds few: the result is number
 * lane / (32 / N), in sum[0]. N: a power of two <= 32. */
template <int N, int WITH = LH_WARP / 2>
static __device__ __forceinline__ void join_lanes(float *sum)
{
    constexpr int LEFT = N * WITH / LH_WARP; /* after this turn; 0: there was one before */
    int is_upper = lh_lane() & WITH;
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
        float gives = is_upper ? sum[i] : sum[i + LEFT], keeps = is_upper ? sum[i + LEFT] : sum[i];
        sum[i] = keeps + __shfl_xor_sync(LH_ALL, gives, WITH);
    }
    if (LEFT == 0) sum[0] += __shfl_xor_sync(LH_ALL, sum[0], WITH);
    if constexpr (WITH > 1) join_lanes<N, WITH / 2>(sum);
}

/* 16 bytes of a row. IS_WIDE: rows are whole pieces of 16 bytes. */
template <int IS_WIDE, typename T>
static __device__ __forceinline__ pack weights_of(const T *p, int64_t n)
{
    return IS_WIDE ? pack_of(lh_load_once(p)) : gather(p, n);
}
template <int IS_WIDE, typename T>
static __device__ __forceinline__ pack tokens_of(const T *p, int64_t n)
{
    return IS_WIDE ? pack_of(*(const uint4 *)p) : gather(p, n);
}

template <typename T, int TOKENS>
struct small_rows {
    const T *w[ROWS], *x[TOKENS];
    int64_t in;
};

/* TURNS turns from column i on: all of them loaded, then multiplied. sum: [TOKENS, ROWS]. */
template <typename T, int TOKENS, int IS_WIDE, int TURNS>
static __device__ __forceinline__ void add_turns(float (&sum)[ROWS * TOKENS], const small_rows<T, TOKENS> &f, int64_t i)
{
    constexpr int STEP = THREADS * (16 / (int)sizeof(T));
    pack ws[TURNS][ROWS], xs[TURNS][TOKENS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = i + k * STEP;
#pragma unroll
        for (int r = 0; r < ROWS; r++) ws[k][r] = weights_of<IS_WIDE>(f.w[r] + at, f.in - at);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) xs[k][t] = tokens_of<IS_WIDE>(f.x[t] + at, f.in - at);
    }
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int n = 0; n < ROWS * TOKENS; n++)
                sum[n] = dot(xs[k][n / ROWS].word[j], ws[k][n % ROWS].word[j], sum[n], T());
        }
    }
}

/* ROWS outputs from o0 on. TOKENS >= the tokens there are, of which the last stands for those that are not; the last
 * output alike. */
template <typename T, int TOKENS, int IS_WIDE>
static __device__ __forceinline__ void multiply_rows(const lh_gemm_args &a, int64_t o0)
{
    constexpr int N = ROWS * TOKENS, EACH = 16 / (int)sizeof(T), STEP = THREADS * EACH, TURNS = TOKENS <= 2 ? 2 : 1;
    __shared__ float parts[WARPS][N];
    int64_t i = (int64_t)threadIdx.x * EACH;
    small_rows<T, TOKENS> f;
    float sum[N] = {};
    f.in = a.in;
#pragma unroll
    for (int r = 0; r < ROWS; r++) f.w[r] = (const T *)a.w + (o0 + r < a.out ? o0 + r : a.out - 1) * a.w_ld;
#pragma unroll
    for (int t = 0; t < TOKENS; t++) f.x[t] = (const T *)a.x + (t < a.tokens ? t : a.tokens - 1) * a.x_ld;
    for (; i + (TURNS - 1) * STEP < a.in; i += TURNS * STEP) add_turns<T, TOKENS, IS_WIDE, TURNS>(sum, f, i);
    for (; i < a.in; i += STEP) add_turns<T, TOKENS, IS_WIDE, 1>(sum, f, i);
    join_lanes<N>(sum);
    if (lh_lane() % (LH_WARP / N) == 0) parts[lh_warp()][lh_lane() / (LH_WARP / N)] = sum[0];
    __syncthreads();
    int n = (int)threadIdx.x, t = n / ROWS;
    int64_t o = o0 + n % ROWS;
    if (n >= N || t >= a.tokens || o >= a.out) return;
    float y = a.bias ? a.bias[o] : 0.0f;
    for (int k = 0; k < WARPS; k++) y += parts[k][n];
    a.y[t * a.y_ld + o] = y;
}

template <typename T, int TOKENS, int IS_WIDE>
static __global__ void gemm_small_kernel(lh_gemm_args a)
{
    multiply_rows<T, TOKENS, IS_WIDE>(a, (int64_t)blockIdx.x * ROWS);
}

template <typename T, int MOST, int IS_WIDE>
static lh_status launch(lh_stream *stream, const lh_gemm_args *a)
{
    lh_shape shape = {dim3((unsigned)((a->out + ROWS - 1) / ROWS)), THREADS, 0};
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
        multiply_rows<T, TOKENS, IS_WIDE>(g, (int64_t)blockIdx.x * ROWS);
}

template <typename T, int MOST, int IS_WIDE>
static lh_status launch_experts(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tokens = a->routes.tokens, tiles = lh_expert_tiles<MOST>(&a->routes);
    lh_shape shape = {dim3((unsigned)((a->out + ROWS - 1) / ROWS), (unsigned)tiles), THREADS, 0};
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
