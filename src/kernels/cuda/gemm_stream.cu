/* Products of up to 16 tokens with bf16 weights, as in decoding: streams of weights through shared memory.
 *
 * The time is the time for reading the weights, so they never stop arriving. A multiprocessor has one block, which
 * computes one tile of ROWS outputs after the other. A tile is cut into pieces of PIECE columns, and the warps take the
 * pieces of all tiles of the block in turn. Each warp has a ring of 2 or 3 stages for its pieces, so that
 * only the sums of a tile need a barrier. The first copies start before the kernel before this one has ended
 * (lh_launch_early); everything else waits for it. The block takes most of the shared memory: the blocks of the next
 * kernel start where blocks of this one have ended.
 *
 * One and two tokens are multiplied on the cores, up to 16 on the tensor cores, where the activations of a piece lie in
 * its stage. With a norm, up to 4 tokens, all activations lie in shared memory as x * w, rounded to bf16, and the sums
 * are multiplied by 1 / rms: blocks need no barrier between the norm and their products. Each term is then off by at
 * most 2^-8 of it, as where the normed row is rounded (ref). Bytes: out * in * 2. */
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/norm_rows.cuh"

typedef __nv_bfloat16 bf16;

/* Threads of a block, and columns of a piece: on the cores, and on the tensor cores. */
enum {
    WARPS = 8,
    THREADS = WARPS * LH_WARP,
    PIECE = 256,
    EACH = 8,          /* numbers of 16 bytes */
    UNDER_WAY = 8,     /* loads of activations of a thread at a time */
    MOST_ON_CORES = 2, /* tokens */
    MMA_WARPS = 4,
    MMA_THREADS = MMA_WARPS * LH_WARP,
    MMA_PIECE = 128,
    PITCH = 2 * MMA_PIECE + 64, /* bytes from a row of a stage to the next */
    LANES = MMA_PIECE / EACH,   /* that copy a row */
    AT_ONCE = LH_WARP / LANES,  /* rows that a warp copies together */
    TOKENS = 8,                 /* of a group, the columns of a product */
    EXPERT_ROWS = 16,
    EXPERT_STAGES = 2 /* so that a multiprocessor has two blocks */
};

/* The tiles of a launch. pieces: of a row of weights; x_ld: bf16 numbers from a token to the next in shared memory. */
typedef struct lh_stream_tiles {
    int tiles, pieces, stages, x_ld;
} lh_stream_tiles;

/* The next piece that a warp copies. */
typedef struct cursor {
    int tile, piece;
} cursor;

static __device__ __forceinline__ void advance(cursor &c, const lh_stream_tiles &s, int by)
{
    for (c.piece += by; c.piece >= s.pieces && c.tile < s.tiles; c.piece -= s.pieces) c.tile += (int)gridDim.x;
}

/* Row r of a tile: ROWS outputs, or the gates of ROWS / 2 outputs, then their values. The last row stands in for
 * missing rows. */
template <int ROWS>
static __device__ __forceinline__ int64_t row_of(const lh_norm_gemm_args &a, int tile, int r)
{
    const int is_gated = a.gated.y != NULL, is_value = is_gated && r >= ROWS / 2;
    const int64_t outs = is_gated ? a.gated.dim : a.gemm.out,
                  o = (int64_t)tile * (is_gated ? ROWS / 2 : ROWS) + r - is_value * (ROWS / 2);
    return (o < outs ? o : outs - 1) + is_value * outs;
}

/* Stores output o of token t; y, up: sums over the columns, `up` the sum for the value that a gate multiplies. */
static __device__ __forceinline__ void put(const lh_norm_gemm_args &a, int64_t t, int64_t o, float y, float up)
{
    const float *bias = a.gemm.bias;
    if (a.gated.y)
        lh_gated_put(a.gated, t, o, bias ? y + bias[o] : y, bias ? up + bias[a.gated.dim + o] : up);
    else
        lh_gemm_put(a.gemm, t, o, bias ? y + bias[o] : y);
}

/* x[t, 0 .. x_ld - 1] = row t of the norm times its weights, 0 after the row, and squares[warp, t] = this warp's sum of
 * squares of row t. */
template <int WARPS>
static __device__ __forceinline__ void stage_normed(bf16 *x, float *squares, const lh_rmsnorm_args &n, int x_ld)
{
    for (int t = 0; t < n.tokens; t++) {
        const float4 *row = (const float4 *)(n.x + t * n.x_ld), *w = (const float4 *)n.w;
        float sum = 0.0f;
        for (int first = (int)threadIdx.x; first < x_ld / 4; first += UNDER_WAY * WARPS * LH_WARP) {
            float4 v[UNDER_WAY] = {}, by[UNDER_WAY] = {};
#pragma unroll
            for (int k = 0, i = first; k < UNDER_WAY; k++, i += WARPS * LH_WARP)
                if (4 * i < n.dim) v[k] = __ldcg(row + i), by[k] = __ldg(w + i);
#pragma unroll
            for (int k = 0, i = first; k < UNDER_WAY; k++, i += WARPS * LH_WARP) {
                sum = fmaf(v[k].x, v[k].x, fmaf(v[k].y, v[k].y, fmaf(v[k].z, v[k].z, fmaf(v[k].w, v[k].w, sum))));
                if (i < x_ld / 4)
                    *(uint2 *)(x + (int64_t)t * x_ld + 4 * i) =
                        make_uint2(lh_word(v[k].x * (n.offset + by[k].x), v[k].y * (n.offset + by[k].y)),
                                   lh_word(v[k].z * (n.offset + by[k].z), v[k].w * (n.offset + by[k].w)));
            }
        }
        sum = lh_warp_sum(sum);
        if (lh_lane() == 0) squares[lh_warp() * n.tokens + t] = sum;
    }
}

/* x[t, 0 .. x_ld - 1] = row t. */
static __device__ __forceinline__ void stage_rows(bf16 *x, const lh_gemm_args &a, int x_ld)
{
    for (int t = 0; t < a.tokens; t++) {
        const uint4 *row = (const uint4 *)((const bf16 *)a.x + t * a.x_ld);
        uint4 *to = (uint4 *)(x + (int64_t)t * x_ld);
        for (int first = (int)threadIdx.x; first < x_ld / 8; first += UNDER_WAY * THREADS) {
            uint4 v[UNDER_WAY];
#pragma unroll
            for (int k = 0, i = first; k < UNDER_WAY; k++, i += THREADS)
                if (i < x_ld / 8) v[k] = __ldcg(row + i);
#pragma unroll
            for (int k = 0, i = first; k < UNDER_WAY; k++, i += THREADS)
                if (i < x_ld / 8) to[i] = v[k];
        }
    }
}

/* The factor of the sums of token t. */
template <int WARPS>
static __device__ __forceinline__ float factor_of(const float *squares, const lh_rmsnorm_args &n, int t)
{
    float sum = 0.0f;
    if (!n.x) return 1.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += squares[w * n.tokens + t];
    return 1.0f / sqrtf(sum / (float)n.dim + n.eps);
}

/* Waits for the oldest of the copies of this thread, one group a stage. */
static __device__ __forceinline__ void wait_for_stage(int stages)
{
    if (stages == 3)
        lh_copy_wait<2>();
    else
        lh_copy_wait<1>();
}

/* ---- one and two tokens, on the cores ----
 *
 * A stage is a piece of ROWS rows, 512 bytes each, in bulk copies of a row (9.0), or 16 bytes a lane. A lane multiplies
 * 8 columns of all rows. */

/* Copies a piece into a stage. */
template <int ROWS, int BULK>
static __device__ __forceinline__ void copy_piece(const lh_norm_gemm_args &a, const cursor &c, unsigned char *stage,
                                                  uint64_t *bar, uint64_t hint)
{
    const lh_gemm_args &g = a.gemm;
    const int col = c.piece * PIECE, cols = min((int)g.in - col, (int)PIECE);
    const bf16 *w = (const bf16 *)g.w + col;
    if (BULK) {
        if (lh_lane() == 0) lh_mbarrier_expect(bar, ROWS * cols * 2);
        __syncwarp();
        if (lh_lane() < ROWS)
            lh_bulk_copy_hint(stage + lh_lane() * PIECE * 2, w + row_of<ROWS>(a, c.tile, lh_lane()) * g.w_ld, cols * 2,
                              bar, hint);
    } else if (EACH * lh_lane() < cols) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            lh_copy_async(stage + r * PIECE * 2 + lh_lane() * 16,
                          w + row_of<ROWS>(a, c.tile, r) * g.w_ld + EACH * lh_lane(), 16);
    }
}

/* sums[r, t] += this lane's columns of a piece. */
template <int M, int ROWS>
static __device__ __forceinline__ void multiply_piece(float (&sums)[ROWS * M], const unsigned char *stage,
                                                      const bf16 *x, int x_ld)
{
    const uint4 *w = (const uint4 *)stage + lh_lane();
    float xs[M][EACH], ws[EACH];
#pragma unroll
    for (int t = 0; t < M; t++) lh_load_wide(xs[t], x + t * x_ld);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        lh_unpack(ws, w[r * (PIECE / EACH)]);
#pragma unroll
        for (int t = 0; t < M; t++) {
#pragma unroll
            for (int j = 0; j < EACH; j++) sums[r * M + t] = fmaf(xs[t][j], ws[j], sums[r * M + t]);
        }
    }
}

/* The outputs of a tile from the sums of the warps, by one warp. */
template <int M, int ROWS>
static __device__ __forceinline__ void put_tile(const lh_norm_gemm_args &a, int tile, const float *sums,
                                                const float *squares)
{
    enum { SUMS = ROWS * M };
    const int is_gated = a.gated.y != NULL, each = is_gated ? ROWS / 2 : ROWS, i = lh_lane(), t = i % M;
    const int64_t o = (int64_t)tile * each + i / M;
    float y = 0.0f, up = 0.0f;
    if (i >= each * M || o >= (is_gated ? a.gated.dim : a.gemm.out)) return;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        y += sums[w * SUMS + i];
        if (is_gated) up += sums[w * SUMS + i + SUMS / 2];
    }
    const float factor = factor_of<WARPS>(squares, a.norm, t);
    put(a, t, o, y * factor, up * factor);
}

template <int M, int ROWS, int BULK>
static __global__ void __launch_bounds__(THREADS, 1)
    stream_kernel(const __grid_constant__ lh_norm_gemm_args a, lh_stream_tiles s)
{
    enum { STAGE = ROWS * PIECE * 2, SUMS = ROWS * M };
    unsigned char *ring = lh_shared() + lh_warp() * s.stages * STAGE;
    bf16 *x = (bf16 *)(lh_shared() + WARPS * s.stages * STAGE);
    float *sums = (float *)(x + M * s.x_ld), *squares = sums + 2 * WARPS * SUMS;
    uint64_t *bars = (uint64_t *)(squares + WARPS * M) + lh_warp() * s.stages, hint = 0;
    cursor next = {(int)blockIdx.x, 0};
    if (BULK) {
        hint = lh_evict_first();
        if (lh_lane() < s.stages) lh_mbarrier_init(bars + lh_lane(), 1);
        lh_mbarrier_fence();
        __syncthreads();
    }
    lh_let_next_start();
    advance(next, s, lh_warp());
    for (int i = 0; i < s.stages; i++) {
        if (next.tile < s.tiles) copy_piece<ROWS, BULK>(a, next, ring + i * STAGE, bars + i, hint);
        advance(next, s, WARPS);
        if (!BULK) lh_copy_commit();
    }
    lh_wait_before();
    if (a.norm.x)
        stage_normed<WARPS>(x, squares, a.norm, s.x_ld);
    else
        stage_rows(x, a.gemm, s.x_ld);
    __syncthreads();
    int stage = 0, parity = 0, piece = lh_warp(), n = 0;
    for (int tile = (int)blockIdx.x; tile < s.tiles; tile += (int)gridDim.x, n++) {
        float own[SUMS] = {}, *all = sums + n % 2 * WARPS * SUMS;
        for (; piece < s.pieces; piece += WARPS) {
            unsigned char *from = ring + stage * STAGE;
            const int64_t col = piece * PIECE + EACH * lh_lane();
            if (BULK)
                lh_mbarrier_wait(bars + stage, parity);
            else
                wait_for_stage(s.stages);
            if (col < a.gemm.in) multiply_piece<M, ROWS>(own, from, x + col, s.x_ld);
            __syncwarp();
            if (next.tile < s.tiles) copy_piece<ROWS, BULK>(a, next, from, bars + stage, hint);
            advance(next, s, WARPS);
            if (!BULK) lh_copy_commit();
            if (++stage == s.stages) stage = 0, parity ^= 1;
        }
        piece -= s.pieces;
        lh_join_lanes<SUMS>(own);
        if (lh_lane() % (LH_WARP / SUMS) == 0) all[lh_warp() * SUMS + lh_lane() / (LH_WARP / SUMS)] = own[0];
        __syncthreads(); /* the next tile has other sums, so that one barrier a tile is enough */
        if (lh_warp() == n % WARPS) put_tile<M, ROWS>(a, tile, all, squares);
    }
    if (!BULK) lh_copy_wait<0>();
}

/* ---- up to 16 tokens, on the tensor cores ----
 *
 * A stage is a piece of ROWS rows of weights and, without a norm, of the tokens' rows, copied 16 bytes a lane, 0 after
 * the last column. A lane loads 16 bytes of a row, which are its parts of two products: any order of columns is valid
 * as long as weights and tokens agree. Rows lie 64 bytes further than a multiple of 128 from each other, so that 8
 * lanes that are served together use different banks. */

static __host__ __device__ __forceinline__ int mma_stage(int rows, int64_t tokens, int has_norm)
{
    return (rows + (has_norm ? 0 : (int)tokens)) * PITCH;
}

/* Copies `count` rows of a piece, given by row(r), to rows of a stage. */
template <int MOST, typename R>
static __device__ __forceinline__ void copy_rows(unsigned char *stage, int64_t cols, int count, R row)
{
    const int lane = lh_lane() % LANES, bytes = lane * EACH < cols ? 16 : 0;
#pragma unroll
    for (int i = 0; i < MOST / AT_ONCE; i++) {
        const int r = AT_ONCE * i + lh_lane() / LANES;
        const bf16 *from = row(r < count ? r : 0);
        if (r < count) lh_copy_async(stage + r * PITCH + lane * 16, bytes ? from + lane * EACH : from, bytes);
    }
}

/* The weights, and the tokens, of a piece. */
template <int ROWS>
static __device__ __forceinline__ void copy_weights(const lh_norm_gemm_args &a, const cursor &c, unsigned char *stage)
{
    const int64_t col = (int64_t)c.piece * MMA_PIECE;
    copy_rows<ROWS>(stage, a.gemm.in - col, ROWS,
                    [&](int r) { return (const bf16 *)a.gemm.w + row_of<ROWS>(a, c.tile, r) * a.gemm.w_ld + col; });
}
template <int GROUPS>
static __device__ __forceinline__ void copy_tokens(const lh_norm_gemm_args &a, const cursor &c, unsigned char *stage)
{
    const int64_t col = (int64_t)c.piece * MMA_PIECE;
    copy_rows<GROUPS * TOKENS>(stage, a.gemm.in - col, (int)a.gemm.tokens,
                               [&](int t) { return (const bf16 *)a.gemm.x + t * a.gemm.x_ld + col; });
}

/* sums += the products of a piece. x: the first token's columns, rows `pitch` bytes from each other. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void mma_piece(float (&sums)[ROWS / 16][GROUPS][4], const unsigned char *stage,
                                                 const unsigned char *x, int pitch, int tokens)
{
    const int g = lh_lane() / 4, at = lh_lane() % 4 * 16;
#pragma unroll
    for (int k = 0; k < MMA_PIECE / 32; k++) {
        uint4 cols[GROUPS];
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            cols[j] = *(const uint4 *)(x + min(g + TOKENS * j, tokens - 1) * pitch + k * 64 + at);
#pragma unroll
        for (int i = 0; i < ROWS / 16; i++) {
            const unsigned char *row = stage + (16 * i + g) * PITCH + k * 64 + at;
            const uint4 low = *(const uint4 *)row, high = *(const uint4 *)(row + 8 * PITCH);
#pragma unroll
            for (int j = 0; j < GROUPS; j++) lh_mma_wide(sums[i][j], low, high, cols[j]);
        }
    }
}

/* all[warp, t, r] = this warp's sums. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void keep_sums(float *all, const float (&sums)[ROWS / 16][GROUPS][4], int tokens)
{
    const int g = lh_lane() / 4, col = lh_lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < ROWS / 16 * GROUPS * 4; n++) {
        const int i = n / (GROUPS * 4), j = n / 4 % GROUPS, e = n % 4;
        const int t = TOKENS * j + col + e % 2, r = 16 * i + g + e / 2 * 8;
        if (t < tokens) all[(lh_warp() * tokens + t) * ROWS + r] = sums[i][j][e];
    }
}

/* The outputs of a tile, by all threads. */
template <int ROWS>
static __device__ __forceinline__ void mma_put_tile(const lh_norm_gemm_args &a, int tile, const float *sums,
                                                    const float *squares)
{
    const int tokens = (int)a.gemm.tokens, is_gated = a.gated.y != NULL, each = is_gated ? ROWS / 2 : ROWS;
    for (int i = (int)threadIdx.x; i < each * tokens; i += MMA_THREADS) {
        const int t = i / each, r = i % each;
        const int64_t o = (int64_t)tile * each + r;
        float y = 0.0f, up = 0.0f;
        if (o >= (is_gated ? a.gated.dim : a.gemm.out)) continue;
#pragma unroll
        for (int w = 0; w < MMA_WARPS; w++) {
            y += sums[(w * tokens + t) * ROWS + r];
            if (is_gated) up += sums[(w * tokens + t) * ROWS + r + ROWS / 2];
        }
        const float factor = factor_of<MMA_WARPS>(squares, a.norm, t);
        put(a, t, o, y * factor, up * factor);
    }
}

/* The tiles of this block. A norm has few tokens (LH_STREAM_NORM_TOKENS), one group. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void multiply_tiles(const lh_norm_gemm_args &a, const lh_stream_tiles &s)
{
    const int tokens = (int)a.gemm.tokens, has_norm = GROUPS == 1 && a.norm.x, size = mma_stage(ROWS, tokens, has_norm);
    unsigned char *ring = lh_shared() + lh_warp() * s.stages * size;
    float *sums = (float *)(lh_shared() + MMA_WARPS * s.stages * size), *squares = sums + 2 * MMA_WARPS * tokens * ROWS;
    bf16 *x = (bf16 *)(squares + MMA_WARPS * tokens);
    cursor next = {(int)blockIdx.x, 0}, first;
    advance(next, s, lh_warp());
    first = next;
    for (int i = 0; i < s.stages; i++, advance(next, s, MMA_WARPS))
        if (next.tile < s.tiles) copy_weights<ROWS>(a, next, ring + i * size);
    lh_wait_before();
    for (int i = 0; i < s.stages; i++, advance(first, s, MMA_WARPS)) {
        if (!has_norm && first.tile < s.tiles) copy_tokens<GROUPS>(a, first, ring + i * size + ROWS * PITCH);
        lh_copy_commit();
    }
    if (has_norm) stage_normed<MMA_WARPS>(x, squares, a.norm, s.x_ld);
    __syncthreads();
    int stage = 0, piece = lh_warp(), n = 0;
    for (int tile = (int)blockIdx.x; tile < s.tiles; tile += (int)gridDim.x, n++) {
        float own[ROWS / 16][GROUPS][4] = {}, *all = sums + n % 2 * MMA_WARPS * tokens * ROWS;
        for (; piece < s.pieces; piece += MMA_WARPS, advance(next, s, MMA_WARPS)) {
            unsigned char *from = ring + stage * size, *of_tokens = from + ROWS * PITCH;
            wait_for_stage(s.stages);
            __syncwarp();
            if (has_norm)
                mma_piece<GROUPS, ROWS>(own, from, (const unsigned char *)(x + piece * MMA_PIECE), 2 * s.x_ld, tokens);
            else
                mma_piece<GROUPS, ROWS>(own, from, of_tokens, PITCH, tokens);
            __syncwarp();
            if (next.tile < s.tiles) {
                copy_weights<ROWS>(a, next, from);
                if (!has_norm) copy_tokens<GROUPS>(a, next, of_tokens);
            }
            lh_copy_commit();
            if (++stage == s.stages) stage = 0;
        }
        piece -= s.pieces;
        keep_sums<GROUPS, ROWS>(all, own, tokens);
        __syncthreads(); /* the next tile has other sums, so that one barrier a tile is enough */
        mma_put_tile<ROWS>(a, tile, all, squares);
    }
    lh_copy_wait<0>();
}

template <int GROUPS, int ROWS>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    stream_mma_kernel(const __grid_constant__ lh_norm_gemm_args a, lh_stream_tiles s)
{
    lh_let_next_start();
    multiply_tiles<GROUPS, ROWS>(a, s);
}

/* ---- experts, with at most one tile each: blocks along the outputs, and along the experts ---- */

template <int GROUPS>
static __global__ void __launch_bounds__(MMA_THREADS) expert_stream_kernel(lh_expert_gemm_args e, lh_stream_tiles s)
{
    lh_norm_gemm_args a = {};
    if (lh_expert_tile<bf16, GROUPS * TOKENS>(&a.gemm, e, (int)blockIdx.y)) multiply_tiles<GROUPS, EXPERT_ROWS>(a, s);
}

/* ---- launching ---- */

/* One of the kernels above for a product. */
typedef struct way {
    int is_mma, rows;
    int64_t shared; /* bytes of a block */
    lh_stream_tiles s;
} way;

/* Sets the tiles and the memory of a way: rings with their mbarriers, sums of two tiles, squares, and activations that
 * are not in the rings. Returns 1 if a block of the device may have so much. */
static int fits(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    const int has_norm = a->norm.x != NULL, is_gated = a->gated.y != NULL;
    const int64_t tokens = a->gemm.tokens, in = a->gemm.in, each = is_gated ? w->rows / 2 : w->rows,
                  outs = is_gated ? a->gated.dim : a->gemm.out, piece = w->is_mma ? MMA_PIECE : PIECE,
                  pieces = (in + piece - 1) / piece, x_ld = w->is_mma ? pieces * piece + 32 : in,
                  stage = w->is_mma ? mma_stage(w->rows, tokens, has_norm) : w->rows * piece * 2,
                  x = w->is_mma && !has_norm ? 0 : tokens * x_ld * 2, of_system = 2 << 10;
    w->s.tiles = (int)((outs + each - 1) / each);
    w->s.pieces = (int)pieces;
    w->s.x_ld = (int)x_ld;
    w->shared = (w->is_mma ? MMA_WARPS : WARPS) *
                    (w->s.stages * (stage + (int64_t)sizeof(uint64_t)) + 2 * tokens * w->rows * 4 + tokens * 4) +
                x;
    return w->shared + of_system <= lh_cuda_shared(stream);
}

/* Rows that a multiprocessor computes, with tiles of so many rows. */
static int64_t rows_in_turns(const lh_norm_gemm_args *a, int rows, int64_t processors)
{
    const int64_t at_once = rows * processors;
    return (a->gemm.out + at_once - 1) / at_once * rows;
}

/* Tiles of `rows` rows, or of half as many if multiprocessors then wait less for the last tiles; three stages if they
 * fit, else two. */
static int find_rows(way *w, const lh_norm_gemm_args *a, const lh_stream *stream, int rows)
{
    const int64_t processors = lh_cuda_processors(stream);
    const int halves = rows_in_turns(a, rows / 2, processors) < rows_in_turns(a, rows, processors);
    for (w->rows = halves ? rows / 2 : rows; w->rows >= rows / 2; w->rows /= 2)
        for (w->s.stages = 3; w->s.stages >= 2; w->s.stages--)
            if (fits(w, a, stream)) return 1;
    return 0;
}

/* On the cores if the activations of up to two tokens fit, else on the tensor cores. */
static int find_way(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    for (w->is_mma = a->gemm.tokens > MOST_ON_CORES; w->is_mma < 2; w->is_mma++)
        if (find_rows(w, a, stream, w->is_mma ? 32 : 16)) return 1;
    return 0;
}

int lh_gemm_streams(const lh_gemm_args *a)
{
    return a->type == LH_BF16 && a->order == LH_ORDER_ANY && a->tokens <= LH_STREAM_TOKENS && a->in > 0 &&
           lh_gemm_is_wide(a);
}

int lh_norm_streams(const lh_stream *stream, const lh_norm_gemm_args *a)
{
    const lh_rmsnorm_args *n = &a->norm;
    way w = {};
    return n->tokens <= LH_STREAM_NORM_TOKENS && n->w && !n->squares && !n->addend && lh_norm_width(n) == 4 &&
           find_way(&w, a, stream);
}

lh_status lh_gemm_stream(lh_stream *stream, const char *name, const lh_norm_gemm_args *a)
{
    typedef void (*kernel)(lh_norm_gemm_args, lh_stream_tiles);
    static const kernel on_cores[][2][2] = /* [tokens - 1][is half][is bulk] */
        {{{stream_kernel<1, 16, 0>, stream_kernel<1, 16, 1>}, {stream_kernel<1, 8, 0>, stream_kernel<1, 8, 1>}},
         {{stream_kernel<2, 16, 0>, stream_kernel<2, 16, 1>}, {stream_kernel<2, 8, 0>, stream_kernel<2, 8, 1>}}};
    static const kernel on_tensor_cores[][2] = /* [groups - 1][is half] */
        {{stream_mma_kernel<1, 32>, stream_mma_kernel<1, 16>}, {stream_mma_kernel<2, 32>, stream_mma_kernel<2, 16>}};
    way w = {};
    if (!find_way(&w, a, stream)) LH_FAIL(LH_EINTERNAL, "the device has too little shared memory for '%s'", name);
    const int blocks = w.s.tiles < lh_cuda_processors(stream) ? w.s.tiles : lh_cuda_processors(stream);
    const lh_shape shape = {dim3((unsigned)blocks), w.is_mma ? MMA_THREADS : THREADS, w.shared};
    return lh_launch_early(stream, name, shape,
                           w.is_mma ? on_tensor_cores[a->gemm.tokens > TOKENS][w.rows < 32]
                                    : on_cores[a->gemm.tokens - 1][w.rows < 16][lh_starts_early(stream)],
                           *a, w.s);
}

lh_status lh_expert_gemm_stream(lh_stream *stream, const lh_expert_gemm_args *e)
{
    const int64_t experts = lh_expert_tiles<LH_STREAM_TOKENS>(&e->routes), processors = lh_cuda_processors(stream);
    lh_norm_gemm_args like = {};
    like.gemm.tokens = e->routes.tokens, like.gemm.in = e->in, like.gemm.out = e->out;
    way w = {};
    w.is_mma = 1, w.rows = EXPERT_ROWS, w.s.stages = EXPERT_STAGES;
    if (!fits(&w, &like, stream)) LH_FAIL(LH_EINTERNAL, "the device has too little shared memory for 'expert_gemm'");
    const int64_t blocks = (2 * processors + experts - 1) / experts;
    const lh_shape shape = {dim3((unsigned)(blocks < w.s.tiles ? blocks : w.s.tiles), (unsigned)experts), MMA_THREADS,
                            w.shared};
    return lh_launch(stream, "expert_gemm", shape,
                     e->routes.tokens <= TOKENS ? expert_stream_kernel<1> : expert_stream_kernel<2>, *e, w.s);
}
