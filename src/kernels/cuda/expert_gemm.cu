/* Products of experts: the choice of the kernel, and the kernel for many tokens of bf16, by tiles on the tensor cores.
 *
 * A block of 4 warps multiplies 32 * M rows of an expert with 128 outputs, a warp 16 * M with 64. Rows and weights pass
 * through shared memory, DEPTH columns at a time in STAGES stages, all but one in flight. A stage has 64 bytes of each
 * row, without gaps; its pieces of 16 bytes are swizzled every two rows, so that the 8 lanes of a store or load use
 * different banks. GROUP tiles are multiplied with 128 outputs, then with the next 128: data shared by concurrent
 * blocks stays in L2, and weights are read from memory once for GROUP tiles. A block reads (32 * M + 128) * in * 2
 * bytes for 32 * M * 128 outputs. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/packed.cuh"

enum {
    THREADS = 4 * LH_WARP,
    OUTS = 128,
    WARP_OUTS = OUTS / 2,
    COLS = WARP_OUTS / 8, /* products of a warp along the outputs */
    EACH = 8,             /* numbers in a piece */
    PIECES = 4,           /* pieces of a row */
    DEPTH = PIECES * EACH,
    AT_ONCE = THREADS / PIECES, /* rows that a block copies together */
    STAGES = 4,
    GROUP = 8
};

/* Rows of a stage: the tile's, then the weights'. */
template <int M>
struct lh_tile_rows {
    enum { X = 32 * M, ALL = X + OUTS };
};

/* The place of a piece in a stage. */
static __device__ __forceinline__ int place_of(int row, int piece)
{
    return row * PIECES + (piece ^ (row / 2 % PIECES));
}

/* The copies of a thread: a piece of every AT_ONCE-th row. Bit n of x_there: the tile has an n-th row. */
typedef struct tile_copies {
    const __nv_bfloat16 *x, *w;
    int64_t x_step, w_step, in; /* in: columns from x and w on */
    unsigned x_there, w_there;
    int to;
} tile_copies;

template <int M>
static __device__ __forceinline__ tile_copies plan_copies(const lh_gemm_args &g, int64_t o0)
{
    typedef __nv_bfloat16 bf16;
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    tile_copies c = {(const bf16 *)g.x + row * g.x_ld + piece * EACH,
                     (const bf16 *)g.w.data + (o0 + row) * g.w.ld + piece * EACH,
                     AT_ONCE * g.x_ld,
                     AT_ONCE * g.w.ld,
                     g.in - piece * EACH,
                     0,
                     0,
                     place_of(row, piece)};
    for (int n = 0; n < M; n++) c.x_there |= (unsigned)(row + n * AT_ONCE < g.tokens) << n;
    for (int n = 0; n < OUTS / AT_ONCE; n++) c.w_there |= (unsigned)(o0 + row + n * AT_ONCE < g.out) << n;
    return c;
}

/* Starts copies of columns [at, at + DEPTH), with zeros outside. */
template <int M>
static __device__ __forceinline__ void copy_stage(uint4 *stage, const tile_copies &c, int64_t at)
{
    unsigned x_there = at < c.in ? c.x_there : 0, w_there = at < c.in ? c.w_there : 0;
#pragma unroll
    for (int n = 0; n < M; n++)
        lh_copy_async(stage + c.to + n * THREADS, c.x + n * c.x_step + at, (int)(x_there >> n & 1) * 16);
#pragma unroll
    for (int n = 0; n < OUTS / AT_ONCE; n++)
        lh_copy_async(stage + c.to + (M + n) * THREADS, c.w + n * c.w_step + at, (int)(w_there >> n & 1) * 16);
    lh_copy_commit();
}

/* c += x w of the DEPTH columns in `stage`, 16 at a time. */
template <int M>
static __device__ __forceinline__ void multiply_stage(float (&c)[M][COLS][4], const uint4 *stage)
{
    int matrix = lh_lane() / 8, row = lh_lane() % 8;
    const uint4 *x = stage + lh_warp() / 2 * 16 * M * PIECES;
    const uint4 *w = stage + (lh_tile_rows<M>::X + lh_warp() % 2 * WARP_OUTS) * PIECES;
#pragma unroll
    for (int k = 0; k < PIECES; k += 2) {
        unsigned ws[COLS / 2][4], xs[4];
#pragma unroll
        for (int n = 0; n < COLS / 2; n++)
            lh_load_matrices(ws[n], w + n * 16 * PIECES + place_of(matrix / 2 * 8 + row, k + matrix % 2));
#pragma unroll
        for (int m = 0; m < M; m++) {
            lh_load_matrices(xs, x + m * 16 * PIECES + place_of(matrix % 2 * 8 + row, k + matrix / 2));
#pragma unroll
            for (int n = 0; n < COLS; n++) lh_mma(c[m][n], xs, ws[n / 2] + n % 2 * 2);
        }
    }
}

template <int M>
static __device__ __forceinline__ void put_tile(const lh_gemm_args &g, int64_t o0, const float (&c)[M][COLS][4])
{
    int64_t o = o0 + lh_warp() % 2 * WARP_OUTS + lh_lane() % 4 * 2;
    int is_whole = (uintptr_t)g.y % 8 == 0 && g.y_ld % 2 == 0 && o0 + OUTS <= g.out;
#pragma unroll
    for (int half = 0; half < 2 * M; half++) {
        int64_t t = lh_warp() / 2 * 16 * M + half * 8 + lh_lane() / 4;
        if (t >= g.tokens) continue;
        float *y = g.y + t * g.y_ld + o;
#pragma unroll
        for (int n = 0; n < COLS; n++) {
            float one = c[half / 2][n][half % 2 * 2], two = c[half / 2][n][half % 2 * 2 + 1];
            if (is_whole) {
                *(float2 *)(y + n * 8) = make_float2(one, two);
            } else {
                if (o + n * 8 < g.out) y[n * 8] = one;
                if (o + n * 8 + 1 < g.out) y[n * 8 + 1] = two;
            }
        }
    }
}

/* Blocks: GROUP tiles for each 128 outputs, then the next ones. */
template <int M>
static __global__ void __launch_bounds__(THREADS) tile_kernel(lh_expert_gemm_args a)
{
    const int words = lh_tile_rows<M>::ALL * PIECES;
    unsigned outs = (unsigned)((a.out + OUTS - 1) / OUTS), turn = blockIdx.x / GROUP;
    int64_t o0 = (int64_t)(turn % outs) * OUTS;
    uint4 *stages = (uint4 *)lh_shared();
    float c[M][COLS][4] = {};
    lh_gemm_args g;
    int stage = 0;
    if (!lh_expert_tile<__nv_bfloat16, 32 * M>(&g, a, (int)(turn / outs * GROUP + blockIdx.x % GROUP))) return;
    tile_copies copies = plan_copies<M>(g, o0);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) copy_stage<M>(stages + s * words, copies, s * DEPTH);
    for (int64_t i = 0; i < g.in; i += DEPTH) {
        lh_copy_wait<STAGES - 2>();
        __syncthreads(); /* the stage is complete, and the previous one has been read */
        copy_stage<M>(stages + (stage + STAGES - 1) % STAGES * words, copies, i + (STAGES - 1) * DEPTH);
        multiply_stage<M>(c, stages + stage * words);
        stage = (stage + 1) % STAGES;
    }
    lh_copy_wait<0>();
    put_tile<M>(g, o0, c);
}

template <int M>
static lh_status launch(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t groups = (lh_expert_tiles<32 * M>(&a->routes) + GROUP - 1) / GROUP, outs = (a->out + OUTS - 1) / OUTS;
    int64_t shared = STAGES * lh_tile_rows<M>::ALL * PIECES * (int64_t)sizeof(uint4);
    lh_shape shape = {dim3((unsigned)(groups * outs * GROUP)), THREADS, shared};
    return lh_launch(stream, "expert_gemm", shape, tile_kernel<M>, *a);
}

/* Tiles as high as the mean rows of an expert, so that few tiles are empty and weights are read seldom. */
static lh_status multiply_tiles(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t rows = a->routes.tokens * a->routes.top_k / a->routes.experts;
    if (rows <= 16) return launch<1>(stream, a);
    return rows <= 96 ? launch<2>(stream, a) : launch<4>(stream, a);
}

lh_status lh_cuda_expert_gemm(lh_stream *stream, const lh_expert_gemm_args *a)
{
    int64_t tokens = a->routes.tokens, small = a->type == LH_F32 ? LH_SMALL_F32 : LH_SMALL_BF16;
    lh_gemm_args all = {};
    all.y = a->y, all.x = a->x, all.w = a->w;
    all.type = a->type;
    all.tokens = tokens * a->routes.top_k, all.out = a->out, all.in = a->in;
    all.y_ld = a->y_ld, all.x_ld = a->x_ld;
    int is_wide = lh_gemm_is_wide(&all) && a->w.step % 16 == 0;
    if (all.tokens == 0 || a->out == 0) return LH_OK;
    if (a->in == 0) return lh_cuda_gemm(stream, &all);
    if (!a->w.format->is_plain && !a->w.format->by_rows) return lh_expert_gemm_packed(stream, a);
    if (a->order == LH_ORDER_FIXED) return lh_expert_gemm_fixed(stream, a);
    if (tokens <= small || a->w.format->by_rows) return lh_expert_gemm_small(stream, a, is_wide);
    if (a->type == LH_F32 || !is_wide) return lh_expert_gemm_fixed(stream, a);
    return tokens <= LH_STREAM_TOKENS ? lh_expert_gemm_stream(stream, a) : multiply_tiles(stream, a);
}
