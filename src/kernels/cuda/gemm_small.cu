/* Small-M GEMM, of one matrix or of experts, on the cores and on the tensor cores; and norm_gemm. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/norm_rows.cuh"
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

/* Adds sum[0 .. N - 1] over the lanes. Halves are exchanged, so that a lane soon holds few numbers: the result is
 * number lane / (32 / N), in sum[0]. N: a power of two <= 32. */
template <int N, int WITH = LH_WARP / 2>
static __device__ __forceinline__ void lh_join_lanes(float *sum)
{
    constexpr int LEFT = N * WITH / LH_WARP; /* after this turn; 0: there was one number before */
    int is_upper = lh_lane() & WITH;
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
        float gives = is_upper ? sum[i] : sum[i + LEFT], keeps = is_upper ? sum[i + LEFT] : sum[i];
        sum[i] = keeps + __shfl_xor_sync(LH_ALL, gives, WITH);
    }
    if (LEFT == 0) sum[0] += __shfl_xor_sync(LH_ALL, sum[0], WITH);
    if constexpr (WITH > 1) lh_join_lanes<N, WITH / 2>(sum);
}

/* 16 bytes of a row. IS_WIDE: rows are whole pieces of 16 bytes. */
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_weights_of(const T *p, int64_t n)
{
    return IS_WIDE ? lh_pack_of(lh_load_once(p)) : lh_gather(p, n);
}
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_tokens_of(const T *p, int64_t n)
{
    return IS_WIDE ? lh_pack_of(*(const uint4 *)p) : lh_gather(p, n);
}

template <typename T, int TOKENS>
struct lh_small_rows {
    const T *w[LH_SMALL_ROWS], *x[TOKENS];
    int64_t in;
};

/* TURNS turns from column i on: loads all of them, then multiplies. sum: [TOKENS, LH_SMALL_ROWS]. */
template <typename T, int TOKENS, int IS_WIDE, int TURNS>
static __device__ __forceinline__ void lh_add_turns(float (&sum)[LH_SMALL_ROWS * TOKENS],
                                                    const lh_small_rows<T, TOKENS> &f, int64_t i)
{
    constexpr int STEP = LH_SMALL_THREADS * (16 / (int)sizeof(T));
    lh_pack ws[TURNS][LH_SMALL_ROWS], xs[TURNS][TOKENS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = i + k * STEP;
#pragma unroll
        for (int r = 0; r < LH_SMALL_ROWS; r++) ws[k][r] = lh_weights_of<IS_WIDE>(f.w[r] + at, f.in - at);
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
template <int IS_WIDE, typename T, int TOKENS>
static __device__ __forceinline__ float lh_small_product(const lh_small_rows<T, TOKENS> &f)
{
    constexpr int N = LH_SMALL_ROWS * TOKENS, EACH = 16 / (int)sizeof(T), STEP = LH_SMALL_THREADS * EACH,
                  TURNS = TOKENS <= 2 ? 2 : 1;
    __shared__ float parts[LH_SMALL_WARPS][N];
    int64_t i = (int64_t)threadIdx.x * EACH;
    float sum[N] = {}, y = 0.0f;
    for (; i + (TURNS - 1) * STEP < f.in; i += TURNS * STEP) lh_add_turns<T, TOKENS, IS_WIDE, TURNS>(sum, f, i);
    for (; i < f.in; i += STEP) lh_add_turns<T, TOKENS, IS_WIDE, 1>(sum, f, i);
    lh_join_lanes<N>(sum);
    if (lh_lane() % (LH_WARP / N) == 0) parts[lh_warp()][lh_lane() / (LH_WARP / N)] = sum[0];
    __syncthreads();
    for (int k = 0; k < LH_SMALL_WARPS && threadIdx.x < N; k++) y += parts[k][threadIdx.x];
    return y;
}

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

/* ---- norm_gemm: a norm, a product of the normed rows, and a gate ----
 *
 * For a few tokens they are one kernel: each block norms the rows again into shared memory, while its first weights
 * are loaded into L2, and multiplies them with one tile of weights after the other; the grid has as many blocks as
 * run concurrently, since each block reads the rows and the weights of the norm. Up to 16 tokens the norm is a
 * separate kernel: that many rows do not fit with the weights. For more tokens the operations run one after the
 * other, and cuBLAS writes the gates and the values that they multiply in the type of the weights. */

enum {
    PAIRS = LH_SMALL_ROWS / 2, /* pairs of a gate and its value per block */
    AHEAD = 2,                 /* turns of weights prefetched before the norm */
    ROOM = 32 << 10,           /* bytes of normed rows: a multiprocessor has several blocks */
    BUSY = 8                   /* blocks on a multiprocessor */
};

/* Row r of a tile of weights: LH_SMALL_ROWS outputs, or the gates of PAIRS outputs, then their values. The last row
 * stands in for missing rows. */
template <int GATED>
static __device__ __forceinline__ int64_t row_of(const lh_gemm_args &a, int64_t tile, int r)
{
    int64_t each = LH_SMALL_ROWS / (1 + GATED), outs = GATED ? a.out / 2 : a.out, o = tile * each + r % each;
    return (o < outs ? o : outs - 1) + r / each * outs;
}

static __device__ __forceinline__ void ask_for(const void *p)
{
#ifdef LH_SIMT
    (void)p;
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

template <int GATED, typename T, int TOKENS>
static __device__ __forceinline__ void find_rows(lh_small_rows<T, TOKENS> &f, const lh_gemm_args &a, int64_t tile)
{
    f.in = a.in;
#pragma unroll
    for (int r = 0; r < LH_SMALL_ROWS; r++) f.w[r] = (const T *)a.w + row_of<GATED>(a, tile, r) * a.w_ld;
}

template <typename T, int TOKENS>
static __device__ __forceinline__ void ask_for_rows(const lh_small_rows<T, TOKENS> &f)
{
    constexpr int EACH = 16 / (int)sizeof(T);
#pragma unroll
    for (int r = 0; r < LH_SMALL_ROWS; r++) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t i = (int64_t)(k * LH_SMALL_THREADS + (int)threadIdx.x) * EACH;
            if (i < f.in) ask_for(f.w[r] + i);
        }
    }
}

/* y of output `o` of token t, from the product of this lane and, gated, of the lane PAIRS further on. */
template <int GATED>
static __device__ __forceinline__ void put(const lh_norm_gemm_args &a, int64_t tile, float product)
{
    constexpr int each = LH_SMALL_ROWS / (1 + GATED);
    const lh_gemm_args &g = a.gemm;
    int64_t t = (int)threadIdx.x / LH_SMALL_ROWS, r = (int)threadIdx.x % LH_SMALL_ROWS, o = tile * each + r,
            outs = GATED ? g.out / 2 : g.out;
    if (g.bias) product += g.bias[row_of<GATED>(g, tile, (int)r)];
    float other = GATED ? __shfl_down_sync(LH_ALL, product, PAIRS) : 0.0f;
    if (t >= g.tokens || r >= each || o >= outs) return;
    if (GATED)
        lh_gated_put(a.gated, t, o, product, other);
    else
        lh_gemm_put(g, t, o, product);
}

template <typename T, int TOKENS, int IS_WIDE, int GATED>
static __global__ void norm_gemm_kernel(const __grid_constant__ lh_norm_gemm_args a, int64_t tiles, int64_t x_ld,
                                        int width)
{
    __shared__ float room[LH_WARP];
    const lh_rmsnorm_args &n = a.norm;
    T *x = (T *)lh_shared(); /* [TOKENS, x_ld] */
    lh_small_rows<T, TOKENS> f;
    find_rows<GATED>(f, a.gemm, blockIdx.x);
    ask_for_rows(f);
    for (int64_t t = 0; t < n.tokens; t++) {
        const float *row = n.x + t * n.x_ld;
        lh_lanes own = {threadIdx.x, LH_SMALL_THREADS};
        float mean = lh_block_sum(lh_squares_of(row, n.dim, own, width), room) / (float)n.dim;
        lh_norm_row(x + t * x_ld, row, n.w, n, mean, own, width);
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) f.x[t] = x + (t < n.tokens ? t : n.tokens - 1) * x_ld;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        __syncthreads(); /* the normed rows are complete, and the sums of the previous tile have been read */
        find_rows<GATED>(f, a.gemm, tile);
        float product = lh_small_product<IS_WIDE>(f);
        if (lh_warp() == 0) put<GATED>(a, tile, product);
    }
}

/* ---- launching ---- */

template <typename T, int TOKENS>
static lh_status norm_launch(lh_stream *stream, const lh_norm_gemm_args *a)
{
    const lh_gemm_args *g = &a->gemm;
    int64_t each = 16 / (int64_t)sizeof(T), x_ld = (g->in + each - 1) / each * each;
    int64_t tiles = a->gated.y ? (g->out / 2 + PAIRS - 1) / PAIRS : (g->out + LH_SMALL_ROWS - 1) / LH_SMALL_ROWS;
    int64_t busy = lh_cuda_processors(stream) * BUSY,
            turns = (tiles + busy - 1) / busy; /* the same number for every block */
    int is_wide = lh_gemm_is_wide(g), width = lh_norm_width(&a->norm);
    lh_shape shape = {dim3((unsigned)((tiles + turns - 1) / turns)), LH_SMALL_THREADS,
                      TOKENS * x_ld * (int64_t)sizeof(T)};
    auto *kernel = a->gated.y ? (is_wide ? norm_gemm_kernel<T, TOKENS, 1, 1> : norm_gemm_kernel<T, TOKENS, 0, 1>)
                              : (is_wide ? norm_gemm_kernel<T, TOKENS, 1, 0> : norm_gemm_kernel<T, TOKENS, 0, 0>);
    return lh_launch(stream, "norm_gemm", shape, kernel, *a, tiles, x_ld, width);
}

/* Returns 1 if there is a gate, with the values after the gates. */
static int is_paired(const lh_norm_gemm_args *a)
{
    const lh_gated_args *gated = &a->gated;
    return gated->y && gated->up == gated->gate + gated->dim && a->gemm.out == 2 * gated->dim;
}

/* Returns 1 if one kernel does everything. */
static int is_one(const lh_norm_gemm_args *a)
{
    const lh_gemm_args *g = &a->gemm;
    int64_t most = g->type == LH_F32 ? LH_SMALL_F32 : LH_SMALL_BF16, tokens = 1;
    while (tokens < g->tokens) tokens *= 2;
    return g->tokens <= most && g->in > 0 && g->order == LH_ORDER_ANY && a->norm.w && !a->norm.squares &&
           tokens * (g->in + 8) * lh_dtype_bytes(g->type) <= ROOM && (!a->gated.y || is_paired(a));
}

static lh_status run_one(lh_stream *stream, const lh_norm_gemm_args *a)
{
    typedef __nv_bfloat16 bf16;
    const int64_t tokens = a->gemm.tokens;
    const int is_f32 = a->gemm.type == LH_F32;
    auto *launched = tokens == 1   ? (is_f32 ? norm_launch<float, 1> : norm_launch<bf16, 1>)
                     : tokens == 2 ? (is_f32 ? norm_launch<float, 2> : norm_launch<bf16, 2>)
                     : tokens <= 4 ? (is_f32 ? norm_launch<float, 4> : norm_launch<bf16, 4>)
                                   : norm_launch<float, LH_SMALL_F32>;
    return launched(stream, a);
}

/* Returns 1 if the norm is a separate kernel, and the gate is not. */
static int is_gated_product(const lh_norm_gemm_args *a)
{
    const lh_gemm_args *g = &a->gemm;
    return g->type == LH_BF16 && g->tokens <= LH_SMALL_MMA_TOKENS && g->in > 0 && g->order == LH_ORDER_ANY &&
           is_paired(a) && lh_gemm_is_wide(g);
}

/* Returns 1 if a product by cuBLAS may be rounded before the gate: half the bytes of the largest array of a layer. */
static int rounds(const lh_norm_gemm_args *a)
{
    const lh_gemm_args *g = &a->gemm;
    return g->type == LH_BF16 && g->tokens > LH_SMALL_MMA_TOKENS && g->in > 0 && g->order == LH_ORDER_ANY && !g->bias &&
           !g->adds && is_paired(a);
}

static lh_status run_rounded(lh_stream *stream, const lh_norm_gemm_args *a)
{
    lh_gated_args gated = a->gated;
    gated.up = (const float *)((const __nv_bfloat16 *)gated.gate + gated.dim);
    LH_TRY(lh_norm_rows(&lh_ops_cuda, stream, &a->norm));
    LH_TRY(lh_blas_gemm(stream, &a->gemm, 0.0f, LH_BF16));
    LH_TRY(lh_cuda_gated_bf16(stream, &gated));
    return LH_OK;
}

lh_status lh_cuda_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    int there = 0;
    if (a->gemm.tokens == 0 || a->gemm.out == 0) return LH_OK;
    if (is_one(a)) return run_one(stream, a);
    if (is_gated_product(a)) {
        LH_TRY(lh_norm_rows(&lh_ops_cuda, stream, &a->norm));
        return lh_gated_small_mma(stream, &a->gemm, &a->gated);
    }
    if (rounds(a)) LH_TRY(lh_blas_find(stream, &there));
    return there ? run_rounded(stream, a) : lh_norm_gemm_in_turn(&lh_ops_cuda, stream, a);
}
