/* Small-M GEMM of any type and alignment and of f8_e4m3 weights, by one matrix or by the matrices of experts; and
 * norm_gemm. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/f8.cuh"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/cuda/blas.h"
#include "kernels/ops.h"
}

/* ---- on the cores: products of a few tokens with large weights, as in decoding ----
 *
 * The time is the time for reading the weights. A block has LH_SMALL_ROWS rows of them and its warps take turns
 * along the rows, 512 bytes per row and turn, 16 per lane, so that every lane has many loads of weights in flight,
 * and one per token of x, which is in L1; with one or two tokens two turns together. A lane sums its part of all
 * LH_SMALL_ROWS x TOKENS outputs, then lanes and then warps are reduced. Bytes: out * in * 2 or 4. */

enum { LH_SMALL_ROWS = 4, LH_SMALL_WARPS = 4, LH_SMALL_THREADS = LH_SMALL_WARPS * LH_WARP };

/* 16 bytes of a row, as words of one f32 or two bf16 numbers. */
struct lh_pack {
    unsigned word[4];
};

static __device__ __forceinline__ lh_pack lh_pack_of(uint4 x)
{
    return {{x.x, x.y, x.z, x.w}};
}

/* The same for rows that are not aligned to 16 bytes or end in between: number by number, 0 from n on. */
static __device__ lh_pack lh_gather(const float *p, int64_t n)
{
    lh_pack x = {};
    for (int j = 0; j < 4; j++) x.word[j] = j < n ? __float_as_uint(p[j]) : 0;
    return x;
}
static __device__ lh_pack lh_gather(const __nv_bfloat16 *p, int64_t n)
{
    lh_pack x = {};
    for (int j = 0; j < 4; j++)
        x.word[j] = lh_word(2 * j < n ? lh_number(p[2 * j]) : 0, 2 * j + 1 < n ? lh_number(p[2 * j + 1]) : 0);
    return x;
}

static __device__ __forceinline__ float lh_dot(unsigned x, unsigned w, float sum, float)
{
    return fmaf(__uint_as_float(x), __uint_as_float(w), sum);
}
static __device__ __forceinline__ float lh_dot(unsigned x, unsigned w, float sum, __nv_bfloat16)
{
    return fmaf(lh_high(x), lh_high(w), fmaf(lh_low(x), lh_low(w), sum));
}

/* 16 bytes of a row from column i on; n columns are left. IS_WIDE: rows are whole pieces of 16 bytes. */
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_weights_of(const T *row, int64_t i, int64_t n, T)
{
    return IS_WIDE ? lh_pack_of(lh_load_once(row + i)) : lh_gather(row + i, n);
}

/* The same of f8_e4m3, as f32 and as bf16 numbers; rows have multiples of 32 columns. */
template <int IS_WIDE>
static __device__ __forceinline__ lh_pack lh_weights_of(const lh_f8_cursor &row, int64_t i, int64_t, float)
{
    float x[4];
    lh_f8_values(x, row, i);
    return {{__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])}};
}
template <int IS_WIDE>
static __device__ __forceinline__ lh_pack lh_weights_of(const lh_f8_cursor &row, int64_t i, int64_t, __nv_bfloat16)
{
    float x[8];
    lh_f8_values(x, row, i);
    return {{lh_word(x[0], x[1]), lh_word(x[2], x[3]), lh_word(x[4], x[5]), lh_word(x[6], x[7])}};
}

/* Row o of the weights. */
template <typename T>
static __device__ __forceinline__ void lh_find_row(const T *&row, const lh_matrix &w, int64_t o)
{
    row = (const T *)w.data + o * w.ld;
}
static __device__ __forceinline__ void lh_find_row(lh_f8_cursor &row, const lh_matrix &w, int64_t o)
{
    row = lh_f8_cursor_at(w, o);
}
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_tokens_of(const T *p, int64_t n)
{
    return IS_WIDE ? lh_pack_of(*(const uint4 *)p) : lh_gather(p, n);
}

/* W: a row of weights. */
template <typename T, int TOKENS, typename W>
struct lh_small_rows {
    W w[LH_SMALL_ROWS];
    const T *x[TOKENS];
    int64_t in;
};

/* TURNS turns from column i on: loads all of them, then multiplies. sum: [TOKENS, LH_SMALL_ROWS]. */
template <int IS_WIDE, int TURNS, typename T, int TOKENS, typename W>
static __device__ __forceinline__ void lh_add_turns(float (&sum)[LH_SMALL_ROWS * TOKENS],
                                                    const lh_small_rows<T, TOKENS, W> &f, int64_t i)
{
    constexpr int STEP = LH_SMALL_THREADS * (16 / (int)sizeof(T));
    lh_pack ws[TURNS][LH_SMALL_ROWS], xs[TURNS][TOKENS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = i + k * STEP;
#pragma unroll
        for (int r = 0; r < LH_SMALL_ROWS; r++) ws[k][r] = lh_weights_of<IS_WIDE>(f.w[r], at, f.in - at, T());
#pragma unroll
        for (int t = 0; t < TOKENS; t++) xs[k][t] = lh_tokens_of<IS_WIDE>(f.x[t] + at, f.in - at);
    }
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int n = 0; n < LH_SMALL_ROWS * TOKENS; n++)
                sum[n] = lh_dot(xs[k][n / LH_SMALL_ROWS].word[j], ws[k][n % LH_SMALL_ROWS].word[j], sum[n], T());
        }
    }
}

/* Output threadIdx.x of [TOKENS, LH_SMALL_ROWS], for the first threads of warp 0; 0 for other threads. */
template <int IS_WIDE, typename T, int TOKENS, typename W>
static __device__ __forceinline__ float lh_small_product(const lh_small_rows<T, TOKENS, W> &f)
{
    constexpr int N = LH_SMALL_ROWS * TOKENS, EACH = 16 / (int)sizeof(T), STEP = LH_SMALL_THREADS * EACH,
                  TURNS = TOKENS <= 2 ? 2 : 1;
    __shared__ float parts[LH_SMALL_WARPS][N];
    int64_t i = (int64_t)threadIdx.x * EACH;
    float sum[N] = {}, y = 0.0f;
    for (; i + (TURNS - 1) * STEP < f.in; i += TURNS * STEP) lh_add_turns<IS_WIDE, TURNS>(sum, f, i);
    for (; i < f.in; i += STEP) lh_add_turns<IS_WIDE, 1>(sum, f, i);
    lh_join_lanes<N>(sum);
    if (lh_lane() % (LH_WARP / N) == 0) parts[lh_warp()][lh_lane() / (LH_WARP / N)] = sum[0];
    __syncthreads();
    for (int k = 0; k < LH_SMALL_WARPS && threadIdx.x < N; k++) y += parts[k][threadIdx.x];
    return y;
}

/* LH_SMALL_ROWS outputs from o0 on. TOKENS >= the number of tokens; the last token stands in for missing ones, and the
 * last output for missing outputs. */
template <typename T, int TOKENS, int IS_WIDE, typename W>
static __device__ __forceinline__ void multiply_rows(const lh_gemm_args &a, int64_t o0)
{
    lh_small_rows<T, TOKENS, W> f;
    f.in = a.in;
#pragma unroll
    for (int r = 0; r < LH_SMALL_ROWS; r++) lh_find_row(f.w[r], a.w, o0 + r < a.out ? o0 + r : a.out - 1);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) f.x[t] = (const T *)a.x + (t < a.tokens ? t : a.tokens - 1) * a.x_ld;
    float product = lh_small_product<IS_WIDE>(f);
    int n = (int)threadIdx.x, t = n / LH_SMALL_ROWS;
    int64_t o = o0 + n % LH_SMALL_ROWS;
    if (n >= LH_SMALL_ROWS * TOKENS || t >= a.tokens || o >= a.out) return;
    lh_gemm_put(a, t, o, (a.bias ? a.bias[o] : 0.0f) + product);
}

/* Blocks: rows of weights, along y TOKENS tokens. */
template <typename T, int TOKENS, int IS_WIDE, typename W>
static __global__ void gemm_small_kernel(lh_gemm_args a)
{
    const int64_t t = (int64_t)blockIdx.y * TOKENS, left = a.tokens - t;
    a.x = (const T *)a.x + t * a.x_ld;
    a.y += t * a.y_ld;
    a.tokens = left < TOKENS ? left : TOKENS;
    multiply_rows<T, TOKENS, IS_WIDE, W>(a, (int64_t)blockIdx.x * LH_SMALL_ROWS);
}

template <typename T, int MOST, int IS_WIDE, typename W = const T *>
static lh_status launch(lh_stream *stream, const lh_gemm_args *a)
{
    lh_shape shape = {
        dim3((unsigned)((a->out + LH_SMALL_ROWS - 1) / LH_SMALL_ROWS), (unsigned)((a->tokens + MOST - 1) / MOST)),
        LH_SMALL_THREADS, 0};
    auto *kernel = a->tokens == 1   ? gemm_small_kernel<T, 1, IS_WIDE, W>
                   : a->tokens == 2 ? gemm_small_kernel<T, 2, IS_WIDE, W>
                   : a->tokens <= 4 ? gemm_small_kernel<T, 4, IS_WIDE, W>
                                    : gemm_small_kernel<T, MOST, IS_WIDE, W>;
    return lh_launch(stream, "gemm", shape, kernel, *a);
}

static lh_status launch_f8(lh_stream *stream, const lh_gemm_args *a)
{
    typedef __nv_bfloat16 bf16;
    const int is_wide = lh_gemm_x_is_wide(a);
    if (a->type == LH_F32)
        return is_wide ? launch<float, LH_SMALL_F32, 1, lh_f8_cursor>(stream, a)
                       : launch<float, LH_SMALL_F32, 0, lh_f8_cursor>(stream, a);
    return is_wide ? launch<bf16, LH_SMALL_BF16, 1, lh_f8_cursor>(stream, a)
                   : launch<bf16, LH_SMALL_BF16, 0, lh_f8_cursor>(stream, a);
}

lh_status lh_gemm_small(lh_stream *stream, const lh_gemm_args *a)
{
    typedef __nv_bfloat16 bf16;
    if (a->w.format->by_rows) return launch_f8(stream, a);
    if (a->type == LH_F32)
        return lh_gemm_is_wide(a) ? launch<float, LH_SMALL_F32, 1>(stream, a)
                                  : launch<float, LH_SMALL_F32, 0>(stream, a);
    return launch<bf16, LH_SMALL_BF16, 0>(stream, a); /* wide rows stream */
}

/* ---- experts: blocks along the outputs, along y tiles ---- */

template <typename T, int TOKENS, int IS_WIDE, typename W>
static __global__ void expert_small_kernel(lh_expert_gemm_args a)
{
    lh_gemm_args g;
    if (lh_expert_tile<T, TOKENS>(&g, a, (int)blockIdx.y))
        multiply_rows<T, TOKENS, IS_WIDE, W>(g, (int64_t)blockIdx.x * LH_SMALL_ROWS);
}

template <typename T, int MOST, int IS_WIDE, typename W = const T *>
static lh_status launch_experts(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tokens = a->routes.tokens, tiles = lh_expert_tiles<MOST>(&a->routes);
    lh_shape shape = {dim3((unsigned)((a->out + LH_SMALL_ROWS - 1) / LH_SMALL_ROWS), (unsigned)tiles), LH_SMALL_THREADS,
                      0};
    auto *kernel = tokens == 1   ? expert_small_kernel<T, 1, IS_WIDE, W>
                   : tokens == 2 ? expert_small_kernel<T, 2, IS_WIDE, W>
                   : tokens <= 4 ? expert_small_kernel<T, 4, IS_WIDE, W>
                                 : expert_small_kernel<T, MOST, IS_WIDE, W>;
    return lh_launch(stream, "expert_gemm", shape, kernel, *a);
}

lh_status lh_expert_gemm_small(lh_stream *stream, const lh_expert_gemm_args *a, int is_wide)
{
    typedef __nv_bfloat16 bf16;
    if (a->w.format->by_rows)
        return a->type == LH_F32 ? launch_experts<float, LH_SMALL_F32, 0, lh_f8_cursor>(stream, a)
                                 : launch_experts<bf16, LH_SMALL_BF16, 0, lh_f8_cursor>(stream, a);
    if (a->type == LH_F32)
        return is_wide ? launch_experts<float, LH_SMALL_F32, 1>(stream, a)
                       : launch_experts<float, LH_SMALL_F32, 0>(stream, a);
    return is_wide ? launch_experts<bf16, LH_SMALL_BF16, 1>(stream, a)
                   : launch_experts<bf16, LH_SMALL_BF16, 0>(stream, a);
}

/* ---- norm_gemm: a norm, a product of the normed rows, and a gate ----
 *
 * Up to 16 tokens the product and the gate are one kernel, and up to 2 the norm too (gemm_stream.cu). For more tokens
 * the operations run one after the other, and cuBLAS writes the gates and the values that they multiply in the type of
 * the weights. */

/* Returns 1 if there is a gate, with the values after the gates. */
static int is_paired(const lh_norm_gemm_args *a)
{
    const lh_gated_args *gated = &a->gated;
    return gated->y && gated->up == (const float *)gated->gate + gated->dim && a->gemm.out == 2 * gated->dim;
}

/* Returns 1 if a product by cuBLAS may be rounded before the gate: half the bytes of the largest array of a layer. */
static int rounds(const lh_norm_gemm_args *a)
{
    const lh_gemm_args *g = &a->gemm;
    return lh_gemm_is_plain(g) && g->type == LH_BF16 && g->tokens > LH_STREAM_TOKENS && g->in > 0 &&
           g->order == LH_ORDER_ANY && !g->bias && !g->adds && is_paired(a);
}

static lh_status run_stream(lh_stream *stream, const lh_norm_gemm_args *a)
{
    lh_norm_gemm_args rest = *a;
    if (lh_norm_streams(stream, a)) return lh_gemm_stream(stream, "norm_gemm", a);
    LH_TRY(lh_norm_rows(&lh_ops_cuda, stream, &a->norm));
    memset(&rest.norm, 0, sizeof rest.norm);
    return lh_gemm_stream(stream, "norm_gemm", &rest);
}

static lh_status run_rounded(lh_stream *stream, const lh_norm_gemm_args *a)
{
    lh_gated_args gated = a->gated;
    gated.x_type = LH_BF16;
    gated.up = (const __nv_bfloat16 *)gated.gate + gated.dim;
    LH_TRY(lh_norm_rows(&lh_ops_cuda, stream, &a->norm));
    LH_TRY(lh_blas_gemm(stream, &a->gemm, 0.0f, LH_BF16));
    LH_TRY(lh_cuda_gated(stream, &gated));
    return LH_OK;
}

lh_status lh_cuda_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    int there = 0;
    if (a->gemm.tokens == 0 || a->gemm.out == 0) return LH_OK;
    if (lh_gemm_streams(&a->gemm) && (!a->gated.y || is_paired(a))) return run_stream(stream, a);
    if (rounds(a)) LH_TRY(lh_blas_find(stream, &there));
    return there ? run_rounded(stream, a) : lh_norm_gemm_in_turn(&lh_ops_cuda, stream, a);
}
