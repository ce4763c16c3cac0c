/* Products of up to 16 tokens with bf16 weights, as in decoding: streams of weights through shared memory.
 *
 * The time is the time for reading the weights, so they never stop arriving. A multiprocessor has one block, which
 * computes one tile of ROWS outputs after the other. A tile is cut into pieces of some columns, and the warps take the
 * pieces of all tiles of the block in turn. Each warp has a ring of stages for its pieces, so that only the sums of a
 * tile need a barrier. The first copies start before the kernel before this one has ended (lh_launch_early); everything
 * else waits for it. The block takes most of the shared memory: the blocks of the next kernel start where blocks of
 * this one have ended.
 *
 * One and two tokens are multiplied on the cores, all their activations lie in shared memory. With a norm they lie
 * there as x * w, rounded to bf16, and the sums are multiplied by 1 / rms: blocks need no barrier between the norm and
 * their products. Each term is then off by at most 2^-8 of it, as where the normed row is rounded (ref). More tokens
 * are multiplied on the tensor cores, the activations of a piece lie in its stage. Bytes: out * in * 2. */
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/norm_rows.cuh"

typedef __nv_bfloat16 bf16;

enum {
    WARPS = 8,
    THREADS = WARPS * LH_WARP,
    EACH = 8, /* numbers of 16 bytes */
    /* on the cores */
    PIECE = 256,       /* columns */
    UNDER_WAY = 8,     /* loads of activations of a thread at a time */
    MOST_ON_CORES = 2, /* tokens */
    /* on the tensor cores */
    TOKENS = 8,  /* of a group, the columns of a product */
    SUM_GAP = 4, /* numbers after the sums of a token: lanes that store together use different banks */
    LANES = LH_TILE_COLUMNS / EACH, /* that copy a row of a tile */
    AT_ONCE = LH_WARP / LANES,      /* rows that a warp copies together */
    EXPERT_ROWS = 16,
    EXPERT_STAGES = 2 /* so that a multiprocessor has two blocks */
};

/* The tiles of a launch. pieces: of a row of weights; stages: of a ring. */
typedef struct lh_stream_tiles {
    int tiles, pieces, stages;
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

/* x[t] = row t of the norm times its weights, and squares[warp, t] = this warp's sum of squares of row t. */
template <int M>
static __device__ __forceinline__ void stage_normed(bf16 *x, float *squares, const lh_rmsnorm_args &n)
{
    enum { AT_A_TIME = UNDER_WAY / M };
    const int fours = (int)n.dim / 4;
    float sums[M] = {};
    for (int first = (int)threadIdx.x; first < fours; first += AT_A_TIME * THREADS) {
        float4 v[M][AT_A_TIME] = {}, by[AT_A_TIME] = {};
#pragma unroll
        for (int k = 0, i = first; k < AT_A_TIME; k++, i += THREADS) {
            if (i >= fours) continue;
            by[k] = __ldg((const float4 *)n.w + i);
#pragma unroll
            for (int t = 0; t < M; t++) v[t][k] = __ldcg((const float4 *)(n.x + t * n.x_ld) + i);
        }
#pragma unroll
        for (int k = 0, i = first; k < AT_A_TIME; k++, i += THREADS) {
            const float4 w = {n.offset + by[k].x, n.offset + by[k].y, n.offset + by[k].z, n.offset + by[k].w};
#pragma unroll
            for (int t = 0; t < M; t++) {
                const float4 y = v[t][k];
                sums[t] = fmaf(y.x, y.x, fmaf(y.y, y.y, fmaf(y.z, y.z, fmaf(y.w, y.w, sums[t]))));
                if (i < fours)
                    *(uint2 *)(x + t * n.dim + 4 * i) =
                        make_uint2(lh_word(y.x * w.x, y.y * w.y), lh_word(y.z * w.z, y.w * w.w));
            }
        }
    }
#pragma unroll
    for (int t = 0; t < M; t++) {
        const float sum = lh_warp_sum(sums[t]);
        if (lh_lane() == 0) squares[lh_warp() * M + t] = sum;
    }
}

/* x[t] = row t. */
template <int M>
static __device__ __forceinline__ void stage_rows(bf16 *x, const lh_gemm_args &a)
{
    enum { AT_A_TIME = UNDER_WAY / M };
    for (int64_t first = EACH * threadIdx.x; first < a.in; first += AT_A_TIME * EACH * THREADS) {
        uint4 v[AT_A_TIME][M];
#pragma unroll
        for (int n = 0; n < AT_A_TIME * M; n++) {
            const int64_t t = n % M, i = first + n / M * (EACH * THREADS);
            if (i < a.in) v[n / M][t] = __ldcg((const uint4 *)((const bf16 *)a.x + t * a.x_ld + i));
        }
#pragma unroll
        for (int n = 0; n < AT_A_TIME * M; n++) {
            const int64_t t = n % M, i = first + n / M * (EACH * THREADS);
            if (i < a.in) *(uint4 *)(x + t * a.in + i) = v[n / M][t];
        }
    }
}

/* The factor of the sums of token t. */
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
    const bf16 *w = (const bf16 *)g.w.data + col;
    if (BULK) {
        if (lh_lane() == 0) lh_mbarrier_expect(bar, ROWS * cols * 2);
        __syncwarp();
        if (lh_lane() < ROWS)
            lh_bulk_copy_hint(stage + lh_lane() * PIECE * 2, w + row_of<ROWS>(a, c.tile, lh_lane()) * g.w.ld, cols * 2,
                              bar, hint);
    } else if (EACH * lh_lane() < cols) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            lh_copy_async(stage + r * PIECE * 2 + lh_lane() * 16,
                          w + row_of<ROWS>(a, c.tile, r) * g.w.ld + EACH * lh_lane(), 16);
    }
}

/* sums[r, t] += this lane's columns of a piece. */
template <int M, int ROWS>
static __device__ __forceinline__ void multiply_piece(float (&sums)[ROWS * M], const unsigned char *stage,
                                                      const bf16 *x, int64_t x_ld)
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
    const float factor = factor_of(squares, a.norm, t);
    put(a, t, o, y * factor, up * factor);
}

template <int M, int ROWS, int BULK>
static __global__ void __launch_bounds__(THREADS, 1)
    stream_kernel(const __grid_constant__ lh_norm_gemm_args a, lh_stream_tiles s)
{
    enum { STAGE = ROWS * PIECE * 2, SUMS = ROWS * M };
    unsigned char *ring = lh_shared() + lh_warp() * s.stages * STAGE;
    bf16 *x = (bf16 *)(lh_shared() + WARPS * s.stages * STAGE);
    float *sums = (float *)(x + M * a.gemm.in), *squares = sums + 2 * WARPS * SUMS;
    uint64_t *bars = (uint64_t *)(squares + WARPS * M) + lh_warp() * s.stages, hint = 0;
    cursor next = {(int)blockIdx.x, 0};
    if (BULK) {
        hint = lh_evict_first();
        if (lh_lane() < s.stages) lh_mbarrier_init(bars + lh_lane(), 1);
        lh_mbarrier_fence();
        __syncthreads();
    }
    lh_let_next_start();
    if (a.norm.x) lh_prefetch_weights(a.norm.w, a.norm.dim);
    advance(next, s, lh_warp());
    for (int i = 0; i < s.stages; i++) {
        if (next.tile < s.tiles) copy_piece<ROWS, BULK>(a, next, ring + i * STAGE, bars + i, hint);
        advance(next, s, WARPS);
        if (!BULK) lh_copy_commit();
    }
    lh_wait_before();
    if (a.norm.x)
        stage_normed<M>(x, squares, a.norm);
    else
        stage_rows<M>(x, a.gemm);
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
            if (col < a.gemm.in) multiply_piece<M, ROWS>(own, from, x + col, a.gemm.in);
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
 * A stage is a piece of ROWS rows of weights and of the tokens' rows, in tiles of 64 columns with the swizzle of tensor
 * copies (lh_tile_piece), so that ldmatrix reads 8 rows from different banks. It is copied in boxes of maps (9.0), or
 * 16 bytes a lane. Numbers after the last column are 0; sums of missing rows and tokens are not stored. */

/* Maps of the weights, in boxes of the rows of a tile, of its gates or of their values; and of the tokens' rows. */
typedef struct lh_stream_maps {
    CUtensorMap w, x;
} lh_stream_maps;

/* Tiles of weights in a piece, and as many of tokens. Two boxes that are copied together read 256 bytes of a row. */
static __host__ __device__ constexpr int mma_tiles(int by_maps)
{
    return by_maps ? 2 : 1;
}

static __host__ __device__ constexpr int mma_stage(int rows, int groups, int by_maps)
{
    return mma_tiles(by_maps) * (rows + groups * TOKENS) * LH_TILE_ROW;
}

/* Numbers from a token to the next in the sums of a warp. */
static __host__ __device__ constexpr int mma_sums(int rows)
{
    return rows + SUM_GAP;
}

/* Copies `count` rows of a tile, given by row(r). */
template <int MOST, typename R>
static __device__ __forceinline__ void copy_rows(unsigned char *to, int64_t cols, int count, R row)
{
    const int lane = lh_lane() % LANES, bytes = lane * EACH < cols ? 16 : 0;
#pragma unroll
    for (int i = 0; i < MOST / AT_ONCE; i++) {
        const int r = AT_ONCE * i + lh_lane() / LANES;
        const bf16 *from = row(r < count ? r : 0);
        if (r < count) lh_copy_async(lh_tile_piece(to, 0, r, lane), bytes ? from + lane * EACH : from, bytes);
    }
}

/* The copies of a launch: boxes of `maps`, which arrive at the mbarrier of their stage, or cp.async by all lanes. A
 * stage has the tiles of the weights, then those of the tokens. */
template <int GROUPS, int ROWS, int BY_MAPS>
struct mma_copies {
    const lh_norm_gemm_args &a;
    const lh_stream_maps *maps;
    uint64_t hint; /* weights are not read again */
    enum {
        TILES = mma_tiles(BY_MAPS),
        STAGE = mma_stage(ROWS, GROUPS, BY_MAPS),
        OF_WEIGHTS = ROWS * LH_TILE_ROW, /* bytes of a tile */
        OF_TOKENS = GROUPS * TOKENS * LH_TILE_ROW
    };

    __device__ __forceinline__ void weights(const cursor &c, unsigned char *stage, uint64_t *bar) const
    {
        const int outs = a.gated.y ? ROWS / 2 : ROWS;
        if (BY_MAPS && lh_lane() == 0) lh_mbarrier_expect(bar, STAGE);
#pragma unroll
        for (int k = 0; k < TILES; k++) {
            const int col = (c.piece * TILES + k) * LH_TILE_COLUMNS;
            unsigned char *to = stage + k * OF_WEIGHTS;
            if (!BY_MAPS) {
                copy_rows<ROWS>(to, a.gemm.in - col, ROWS, [&](int r) {
                    return (const bf16 *)a.gemm.w.data + row_of<ROWS>(a, c.tile, r) * a.gemm.w.ld + col;
                });
            } else if (lh_lane() == 0) {
                lh_tensor_copy_hint(to, &maps->w, col, c.tile * outs, bar, hint);
                if (a.gated.y)
                    lh_tensor_copy_hint(to + OF_WEIGHTS / 2, &maps->w, col, (int)a.gated.dim + c.tile * outs, bar,
                                        hint);
            }
        }
    }

    __device__ __forceinline__ void tokens(const cursor &c, unsigned char *stage, uint64_t *bar) const
    {
#pragma unroll
        for (int k = 0; k < TILES; k++) {
            const int col = (c.piece * TILES + k) * LH_TILE_COLUMNS;
            unsigned char *to = stage + TILES * OF_WEIGHTS + k * OF_TOKENS;
            if (!BY_MAPS)
                copy_rows<GROUPS * TOKENS>(to, a.gemm.in - col, (int)a.gemm.tokens,
                                           [&](int t) { return (const bf16 *)a.gemm.x + t * a.gemm.x_ld + col; });
            else if (lh_lane() == 0)
                lh_tensor_copy(to, &maps->x, col, 0, bar);
        }
    }
};

/* sums += the products of a tile of weights, w, and a tile of tokens, x. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void mma_tile(float (&sums)[ROWS / 16][GROUPS][4], unsigned char *w, unsigned char *x)
{
    const int row = lh_lane() % 16, half = lh_lane() / 16, token = lh_lane() % TOKENS, quarter = lh_lane() / TOKENS;
#pragma unroll
    for (int k = 0; k < LH_TILE_COLUMNS / 32; k++) {
        unsigned cols[GROUPS][4];
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            lh_load_matrices(cols[j], lh_tile_piece(x, 0, TOKENS * j + token, 4 * k + quarter));
#pragma unroll
        for (int n = 0; n < ROWS / 8; n++) {
            const int i = n / 2, h = n % 2;
            unsigned rows[4];
            lh_load_matrices(rows, lh_tile_piece(w, 0, 16 * i + row, 4 * k + 2 * h + half));
#pragma unroll
            for (int j = 0; j < GROUPS; j++) lh_mma(sums[i][j], rows, cols[j] + 2 * h);
        }
    }
}

/* all[warp, t, r] = this warp's sums. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void keep_sums(float *all, const float (&sums)[ROWS / 16][GROUPS][4])
{
    const int g = lh_lane() / 4, col = lh_lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < ROWS / 16 * GROUPS * 4; n++) {
        const int i = n / (GROUPS * 4), j = n / 4 % GROUPS, e = n % 4;
        const int t = TOKENS * j + col + e % 2, r = 16 * i + g + e / 2 * 8;
        all[(lh_warp() * GROUPS * TOKENS + t) * mma_sums(ROWS) + r] = sums[i][j][e];
    }
}

/* The outputs of a tile from the sums of the warps, by all warps. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void mma_put_tile(const lh_norm_gemm_args &a, int tile, const float *sums)
{
    const int is_gated = a.gated.y != NULL, each = is_gated ? ROWS / 2 : ROWS;
    const int64_t outs = is_gated ? a.gated.dim : a.gemm.out, first = (int64_t)tile * each;
    for (int t = lh_warp(); t < (int)a.gemm.tokens; t += WARPS) {
        for (int r = lh_lane(); r < each && first + r < outs; r += LH_WARP) {
            float y = 0.0f, up = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const float *of_warp = sums + (w * GROUPS * TOKENS + t) * mma_sums(ROWS) + r;
                y += of_warp[0];
                if (is_gated) up += of_warp[ROWS / 2];
            }
            put(a, t, first + r, y, up);
        }
    }
}

/* The tiles of this block. */
template <int GROUPS, int ROWS, int BY_MAPS>
static __device__ __forceinline__ void multiply_tiles(const mma_copies<GROUPS, ROWS, BY_MAPS> &copies,
                                                      const lh_stream_tiles &s)
{
    typedef mma_copies<GROUPS, ROWS, BY_MAPS> kind;
    enum { STAGE = kind::STAGE };
    unsigned char *shared = lh_shared() + (0u - lh_shared_address(lh_shared())) % LH_TILE_ALIGNED;
    unsigned char *ring = shared + lh_warp() * s.stages * STAGE;
    float *sums = (float *)(shared + WARPS * s.stages * STAGE);
    uint64_t *bars = (uint64_t *)(sums + WARPS * GROUPS * TOKENS * mma_sums(ROWS)) + lh_warp() * s.stages;
    cursor next = {(int)blockIdx.x, 0}, first;
    if (BY_MAPS) {
        if (lh_lane() < s.stages) lh_mbarrier_init(bars + lh_lane(), 1);
        lh_mbarrier_fence();
        __syncwarp();
    }
    advance(next, s, lh_warp());
    first = next;
    for (int i = 0; i < s.stages; i++, advance(next, s, WARPS))
        if (next.tile < s.tiles) copies.weights(next, ring + i * STAGE, bars + i);
    lh_wait_before();
    for (int i = 0; i < s.stages; i++, advance(first, s, WARPS)) {
        if (first.tile < s.tiles) copies.tokens(first, ring + i * STAGE, bars + i);
        if (!BY_MAPS) lh_copy_commit();
    }
    int stage = 0, parity = 0, piece = lh_warp();
    for (int tile = (int)blockIdx.x; tile < s.tiles; tile += (int)gridDim.x) {
        float own[ROWS / 16][GROUPS][4] = {};
        for (; piece < s.pieces; piece += WARPS, advance(next, s, WARPS)) {
            unsigned char *from = ring + stage * STAGE;
            if (BY_MAPS)
                lh_mbarrier_wait(bars + stage, parity);
            else
                wait_for_stage(s.stages);
            __syncwarp();
#pragma unroll
            for (int k = 0; k < kind::TILES; k++)
                mma_tile<GROUPS, ROWS>(own, from + k * kind::OF_WEIGHTS,
                                       from + kind::TILES * kind::OF_WEIGHTS + k * kind::OF_TOKENS);
            __syncwarp();
            if (next.tile < s.tiles) {
                copies.weights(next, from, bars + stage);
                copies.tokens(next, from, bars + stage);
            }
            if (!BY_MAPS) lh_copy_commit();
            if (++stage == s.stages) stage = 0, parity ^= 1;
        }
        piece -= s.pieces;
        __syncthreads(); /* all warps have stored the outputs of the previous tile */
        keep_sums<GROUPS, ROWS>(sums, own);
        __syncthreads();
        mma_put_tile<GROUPS, ROWS>(copies.a, tile, sums);
    }
    if (!BY_MAPS) lh_copy_wait<0>();
}

template <int GROUPS, int ROWS, int BY_MAPS>
static __global__ void __launch_bounds__(THREADS, 1)
    stream_mma_kernel(const __grid_constant__ lh_norm_gemm_args a, const __grid_constant__ lh_stream_maps maps,
                      lh_stream_tiles s)
{
    lh_let_next_start();
    multiply_tiles(mma_copies<GROUPS, ROWS, BY_MAPS>{a, &maps, BY_MAPS ? lh_evict_first() : 0}, s);
}

/* ---- experts, with at most one tile each: blocks along the outputs, and along the experts ---- */

template <int GROUPS>
static __global__ void __launch_bounds__(THREADS) expert_stream_kernel(lh_expert_gemm_args e, lh_stream_tiles s)
{
    lh_norm_gemm_args a = {};
    if (lh_expert_tile<bf16, GROUPS * TOKENS>(&a.gemm, e, (int)blockIdx.y))
        multiply_tiles(mma_copies<GROUPS, EXPERT_ROWS, 0>{a, NULL, 0}, s);
}

/* ---- launching ---- */

/* One of the kernels above for a product. by_maps: true if it copies the boxes of `maps`. */
typedef struct way {
    int is_mma, by_maps, size, rows; /* rows: sizes[is_mma][size] */
    int64_t shared;                  /* bytes of a block */
    lh_stream_tiles s;
    lh_stream_maps maps;
} way;

static int groups_of(const lh_norm_gemm_args *a)
{
    return a->gemm.tokens > TOKENS ? 2 : 1;
}

/* Sets the tiles and the memory of a way: rings with their mbarriers, sums of a tile, and on the cores the sums of
 * another one, squares and activations. Returns 1 if a block of the device may have so much. */
static int fits(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    const int is_gated = a->gated.y != NULL, groups = groups_of(a);
    const int64_t tokens = a->gemm.tokens, in = a->gemm.in, each = is_gated ? w->rows / 2 : w->rows,
                  outs = is_gated ? a->gated.dim : a->gemm.out,
                  piece = w->is_mma ? mma_tiles(w->by_maps) * LH_TILE_COLUMNS : PIECE,
                  stage = w->is_mma ? mma_stage(w->rows, groups, w->by_maps) : w->rows * piece * 2,
                  sums = w->is_mma ? groups * TOKENS * mma_sums(w->rows) : (2 * w->rows + 1) * tokens,
                  of_block = w->is_mma ? (int64_t)LH_TILE_ALIGNED : tokens * in * 2, of_system = 2 << 10;
    w->s.tiles = (int)((outs + each - 1) / each);
    w->s.pieces = (int)((in + piece - 1) / piece);
    w->shared = WARPS * (w->s.stages * (stage + (int64_t)sizeof(uint64_t)) + sums * 4) + of_block;
    return w->shared + of_system <= lh_cuda_shared(stream);
}

/* Rows that a multiprocessor computes, with tiles of so many rows. */
static int64_t rows_in_turns(const lh_norm_gemm_args *a, int rows, int64_t processors)
{
    const int64_t at_once = rows * processors;
    return (a->gemm.out + at_once - 1) / at_once * rows;
}

/* Rows of tiles, on the cores and on the tensor cores, the best first. */
enum { SIZES = 2 };
static const int sizes[2][SIZES] = {{16, 8}, {32, 16}};

/* The tiles that fit and let multiprocessors wait least for the last ones; as many stages as fit, two or more. */
static int find_rows(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    enum { MAX_STAGES = 8, BY_LANES = 3 };
    const int64_t processors = lh_cuda_processors(stream);
    way best = {};
    for (w->size = 0; w->size < SIZES; w->size++) {
        w->rows = sizes[w->is_mma][w->size];
        w->s.stages = w->by_maps ? MAX_STAGES : BY_LANES;
        while (w->s.stages >= 2 && !fits(w, a, stream)) w->s.stages--;
        if (w->s.stages >= 2 &&
            (!best.rows || rows_in_turns(a, w->rows, processors) < rows_in_turns(a, best.rows, processors)))
            best = *w;
    }
    if (best.rows) *w = best;
    return best.rows > 0;
}

static int make_maps(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    const lh_gemm_args *g = &a->gemm;
    const int64_t weights[] = {g->out, g->in}, tokens[] = {g->tokens, g->in};
    return lh_map_tiles(stream, &w->maps.w, g->w.data, weights, g->w.ld, a->gated.y ? w->rows / 2 : w->rows) ==
               CUDA_SUCCESS &&
           lh_map_tiles(stream, &w->maps.x, g->x, tokens, g->x_ld, groups_of(a) * TOKENS) == CUDA_SUCCESS;
}

/* On the cores if the activations of up to two tokens fit, else on the tensor cores; there by maps if the device and
 * its driver have them. */
static int find_way(way *w, const lh_norm_gemm_args *a, const lh_stream *stream)
{
    const int maps = lh_starts_early(stream) && lh_cuda_maps(stream);
    for (w->is_mma = a->gemm.tokens > MOST_ON_CORES; w->is_mma < 2; w->is_mma++)
        for (w->by_maps = w->is_mma && maps; w->by_maps >= 0; w->by_maps--)
            if (find_rows(w, a, stream) && (!w->by_maps || make_maps(w, a, stream))) return 1;
    return 0;
}

int lh_gemm_streams(const lh_gemm_args *a)
{
    return lh_gemm_is_plain(a) && a->type == LH_BF16 && a->order == LH_ORDER_ANY && a->tokens <= LH_STREAM_TOKENS &&
           a->in > 0 && lh_gemm_is_wide(a);
}

int lh_norm_streams(const lh_stream *stream, const lh_norm_gemm_args *a)
{
    const lh_rmsnorm_args *n = &a->norm;
    way w = {};
    return n->tokens <= LH_STREAM_NORM_TOKENS && n->w && !n->squares && !n->addend && lh_norm_width(n) == 4 &&
           find_way(&w, a, stream) && !w.is_mma;
}

typedef void (*cores_kernel)(lh_norm_gemm_args, lh_stream_tiles);
typedef void (*mma_kernel)(lh_norm_gemm_args, lh_stream_maps, lh_stream_tiles);

/* [tokens - 1][size][is bulk] */
static const cores_kernel on_cores[][SIZES][2] = {
    {{stream_kernel<1, 16, 0>, stream_kernel<1, 16, 1>}, {stream_kernel<1, 8, 0>, stream_kernel<1, 8, 1>}},
    {{stream_kernel<2, 16, 0>, stream_kernel<2, 16, 1>}, {stream_kernel<2, 8, 0>, stream_kernel<2, 8, 1>}}};

/* [groups - 1][size][by maps] */
static const mma_kernel on_tensor_cores[][SIZES][2] = {{{stream_mma_kernel<1, 32, 0>, stream_mma_kernel<1, 32, 1>},
                                                        {stream_mma_kernel<1, 16, 0>, stream_mma_kernel<1, 16, 1>}},
                                                       {{stream_mma_kernel<2, 32, 0>, stream_mma_kernel<2, 32, 1>},
                                                        {stream_mma_kernel<2, 16, 0>, stream_mma_kernel<2, 16, 1>}}};

lh_status lh_gemm_stream(lh_stream *stream, const char *name, const lh_norm_gemm_args *a)
{
    const int tokens = (int)a->gemm.tokens, is_bulk = lh_starts_early(stream);
    way w = {};
    if (!find_way(&w, a, stream)) LH_FAIL(LH_EINTERNAL, "the device has too little shared memory for '%s'", name);
    const int blocks = w.s.tiles < lh_cuda_processors(stream) ? w.s.tiles : lh_cuda_processors(stream);
    const lh_shape shape = {dim3((unsigned)blocks), THREADS, w.shared};
    return w.is_mma ? lh_launch_early(stream, name, shape, on_tensor_cores[groups_of(a) - 1][w.size][w.by_maps], *a,
                                      w.maps, w.s)
                    : lh_launch_early(stream, name, shape, on_cores[tokens - 1][w.size][is_bulk], *a, w.s);
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
    const lh_shape shape = {dim3((unsigned)(blocks < w.s.tiles ? blocks : w.s.tiles), (unsigned)experts), THREADS,
                            w.shared};
    return lh_launch(stream, "expert_gemm", shape,
                     e->routes.tokens <= TOKENS ? expert_stream_kernel<1> : expert_stream_kernel<2>, *e, w.s);
}
