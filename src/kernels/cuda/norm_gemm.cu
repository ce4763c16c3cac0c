/* A norm, a product of the normed rows, and a gate. For a few tokens they are one kernel: each block norms the rows
 * again into shared memory, while its first weights are loaded into L2, and multiplies them with one tile of weights
 * after the other; the grid has as many blocks as run concurrently, since each block reads the rows and the weights of
 * the norm. Up to 16 tokens the norm is a separate kernel: that many rows do not fit with the weights. For more tokens
 * the operations run one after the other, and cuBLAS writes the gates and the values that they multiply in the type of
 * the weights. */
#include "kernels/cuda/gemm_small.cuh"
#include "kernels/cuda/norm_rows.cuh"

extern "C" {
#include "kernels/cuda/blas.h"
#include "kernels/ops.h"
}

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
static lh_status launch(lh_stream *stream, const lh_norm_gemm_args *a)
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
    auto *launched = tokens == 1   ? (is_f32 ? launch<float, 1> : launch<bf16, 1>)
                     : tokens == 2 ? (is_f32 ? launch<float, 2> : launch<bf16, 2>)
                     : tokens <= 4 ? (is_f32 ? launch<float, 4> : launch<bf16, 4>)
                                   : launch<float, LH_SMALL_F32>;
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
