/* Products with weights of few bits (layout: kernels/packed.h, arithmetic: gemm in ops_model.h): a kernel rounds x to
 * 15 bits, a kernel for each matrix multiplies.
 *
 * A block has a group of 16 rows and up to TOKENS tokens. WARPS warps take turns of 2 PAIRS blocks of 32 columns: they
 * form integer sums, and leave them, times the scale of x, with the scales of the weights in shared memory. When all
 * warps have had a turn, further warps, a lane for each row and token, add those numbers in the order of the columns,
 * while the multiplying warps are at their next turn. A warp loads the weights of its next turn before it waits for the
 * other warps, and the weights of its first turn before it waits for x. Weights are read from memory once for TOKENS
 * tokens. */
#include "kernels/cuda/expert_gemm.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/vector.cuh"

enum { WARPS = 8, THREADS = WARPS * LH_WARP, CHUNK = 64 /* tokens that are rounded together */ };

/* ---- rounded activations ---- */

/* A block of x: 32 numbers of 16 bits, their scale, the scale times their sum, their sum, and the sum of the first
 * half.
 */
typedef struct lh_rounded {
    __align__(16) int16_t x[LH_PACKED_COLS];
    float scale, scaled_sum;
    int sum, half_sum;
} lh_rounded;

/* One block, a lane for each number. */
template <typename X>
static __device__ __forceinline__ void round_block(lh_rounded *to, const X *from)
{
    const float x = lh_number(from[lh_lane()]), max = lh_warp_max(fabsf(x));
    const int is_finite = __ballot_sync(LH_ALL, !isfinite(x)) == 0, has_size = is_finite && max >= 0x1p-100f;
    const int rounded = has_size ? __float2int_rn(__fmul_rn(x, __fdiv_rn(16255.0f, max))) : 0;
    const float scale = !is_finite ? NAN : has_size ? __fdiv_rn(max, 16255.0f) : 0.0f;
    int half = rounded;
    for (int with = LH_WARP / 4; with > 0; with /= 2) half += __shfl_xor_sync(LH_ALL, half, with);
    const int sum = half + __shfl_xor_sync(LH_ALL, half, LH_WARP / 2);
    to->x[lh_lane()] = (int16_t)rounded;
    if (lh_lane() > 0) return;
    to->scale = scale;
    to->scaled_sum = __fmul_rn(scale, (float)sum);
    to->sum = sum;
    to->half_sum = half;
}

/* to: [tokens, in / 32] */
template <typename X>
static __global__ void __launch_bounds__(THREADS) round_kernel(lh_gemm_args a, lh_rounded *to)
{
    const int64_t blocks = a.in / LH_PACKED_COLS, step = (int64_t)gridDim.x * WARPS;
    lh_let_next_start();
    lh_wait_before();
    for (int64_t n = (int64_t)blockIdx.x * WARPS + lh_warp(); n < a.tokens * blocks; n += step)
        round_block(to + n, (const X *)a.x + n / blocks * a.x_ld + n % blocks * LH_PACKED_COLS);
}

static lh_status round_x(lh_stream *stream, const char *name, const lh_gemm_args *a, lh_rounded *to)
{
    const lh_shape shape = {dim3(lh_blocks(a->tokens * (a->in / LH_PACKED_COLS), WARPS)), THREADS, 0};
    auto *kernel = a->type == LH_F32 ? round_kernel<float> : round_kernel<__nv_bfloat16>;
    return lh_launch_early(stream, name, shape, kernel, *a, to);
}

/* ---- products ---- */

/* Constants of a product. */
template <typename F, int TOKENS>
struct lh_packed_way {
    enum {
        /* of a turn: blocks that a warp multiplies at a time */
        PAIRS = TOKENS > 4 ? 1 : (TOKENS <= 2 ? 2 : 1) * (F::BITS < 6 ? 2 : 1),
        TURN = 2 * PAIRS,
        TOGETHER = TOKENS * F::GROUPS > 8 ? TOKENS / 2 : TOKENS,   /* tokens with numbers in registers */
        SLICE = WARPS * TURN,                                      /* blocks of a turn of all warps */
        NUMBERS = F::GROUPS * (1 + TOKENS) + F::MINIMA,            /* of a row in a block: scales, offset, sums */
        ADDING = (LH_PACKED_ROWS * TOKENS + LH_WARP - 1) / LH_WARP /* warps that add */
    };
};

/* The numbers of a slice. */
template <typename F, int TOKENS>
using lh_slice = float[lh_packed_way<F, TOKENS>::SLICE][lh_packed_way<F, TOKENS>::NUMBERS][LH_PACKED_ROWS];

/* The group of a block, and its blocks of columns [first, end) by their number in the source. x: [tokens, end - first]
 */
typedef struct lh_packed_work {
    const uint8_t *group;
    const lh_rounded *x;
    int lead, first, end, tokens;
} lh_packed_work;

/* The sums of a row in a block with a token, by groups of columns, times the scale of x. */
template <typename F>
static __device__ __forceinline__ void multiply_row(float (&sums)[F::GROUPS], const unsigned (&code)[LH_BLOCK_WORDS],
                                                    const lh_rounded *x)
{
    const uint4 numbers = ((const uint4 *)&x->scale)[0];
    int sum[F::GROUPS] = {}, zeros[F::GROUPS];
#pragma unroll
    for (int j = 0; j < LH_BLOCK_WORDS; j += 2) {
        const uint4 xs = ((const uint4 *)x->x)[j / 2];
        int &to = sum[j * F::GROUPS / LH_BLOCK_WORDS];
        to = __dp2a_lo((int)xs.x, (int)code[j], to);
        to = __dp2a_hi((int)xs.y, (int)code[j], to);
        to = __dp2a_lo((int)xs.z, (int)code[j + 1], to);
        to = __dp2a_hi((int)xs.w, (int)code[j + 1], to);
    }
    zeros[0] = F::GROUPS == 1 ? (int)numbers.z : (int)numbers.w;
    if (F::GROUPS == 2) zeros[F::GROUPS - 1] = (int)numbers.z - (int)numbers.w;
#pragma unroll
    for (int g = 0; g < F::GROUPS; g++)
        sums[g] = __fmul_rn(__uint_as_float(numbers.x), (float)(sum[g] - lh_zero_of<F>() * zeros[g]));
}

/* A turn's numbers, to its place in the slice; numbers of blocks outside the work are not read. */
template <typename F, int TOKENS>
static __device__ __forceinline__ void multiply_turn(lh_slice<F, TOKENS> &to,
                                                     const lh_row_block<F> (&own)[lh_packed_way<F, TOKENS>::PAIRS],
                                                     const lh_packed_work &w, int n)
{
    const int row = lh_lane() % LH_PACKED_ROWS, parity = lh_lane() / LH_PACKED_ROWS, blocks = w.end - w.first;
#pragma unroll
    for (int i = 0; i < lh_packed_way<F, TOKENS>::PAIRS; i++) {
        const int b = min(max(n + 2 * i + parity, w.first), w.end - 1) - w.first;
        float(*place)[LH_PACKED_ROWS] = to[lh_warp() * lh_packed_way<F, TOKENS>::TURN + 2 * i + parity];
        unsigned code[LH_BLOCK_WORDS];
#pragma unroll
        for (int j = 0; j < LH_BLOCK_WORDS; j++) code[j] = lh_codes_of(own[i], j);
#pragma unroll
        for (int g = 0; g < F::GROUPS; g++) place[g][row] = lh_row_scale(own[i], g);
        if (F::MINIMA) place[F::GROUPS][row] = lh_row_offset(own[i]);
#pragma unroll(lh_packed_way <F, TOKENS>::TOGETHER)
        for (int t = 0; t < TOKENS; t++) {
            float sums[F::GROUPS];
            multiply_row<F>(sums, code, w.x + (int64_t)min(t, w.tokens - 1) * blocks + b);
#pragma unroll
            for (int g = 0; g < F::GROUPS; g++) place[F::GROUPS + F::MINIMA + g * TOKENS + t][row] = sums[g];
        }
    }
}

/* y of a row and a token with the blocks of the slice that begins at block n. */
template <typename F, int TOKENS>
static __device__ __forceinline__ float add_slice(float y, const lh_slice<F, TOKENS> &from, const lh_packed_work &w,
                                                  int n, int row, int t)
{
    const lh_rounded *x = w.x + (int64_t)t * (w.end - w.first) - w.first;
    const int first = max(n, w.first), end = min(n + lh_packed_way<F, TOKENS>::SLICE, w.end);
#pragma unroll 4
    for (int b = first; b < end; b++) {
        const float(*place)[LH_PACKED_ROWS] = from[b - n];
#pragma unroll
        for (int g = 0; g < F::GROUPS; g++)
            y = fmaf(place[g][row], place[F::GROUPS + F::MINIMA + g * TOKENS + t][row], y);
        if (F::MINIMA) y = fmaf(place[F::GROUPS][row], x[b].scaled_sum, y);
    }
    return y;
}

/* Rows [16 group, 16 group + 16) of a single matrix. g.x: rounded blocks; g.tokens <= TOKENS. */
template <typename F, int TOKENS>
static __device__ __forceinline__ void multiply_group(const lh_gemm_args &g, int64_t group)
{
    typedef lh_packed_way<F, TOKENS> way;
    __shared__ lh_slice<F, TOKENS> room[2];
    const lh_packing p = F::packing();
    const int lead = (int)(g.w.phase / LH_PACKED_COLS), first = lead + (int)(g.w.first / LH_PACKED_COLS);
    const lh_packed_work w = {(const uint8_t *)g.w.data + group * lh_group_bytes(&p, lead, g.w.ld / LH_PACKED_COLS),
                              (const lh_rounded *)g.x,
                              lead,
                              first,
                              first + (int)(g.in / LH_PACKED_COLS),
                              (int)g.tokens};
    const int adder = (int)threadIdx.x - THREADS, row = adder & (LH_PACKED_ROWS - 1), t = adder / LH_PACKED_ROWS;
    const int begin = first & ~(way::TURN - 1), is_adder = adder >= 0 && t < w.tokens;
    lh_row_block<F> own[way::PAIRS];
    float y = 0.0f;
    int n = begin + lh_warp() * way::TURN;
    if (adder < 0) lh_load_pairs(own, w.group, w.lead, w.first, w.end, n);
    lh_wait_before();
    for (int slice = begin, i = 0; slice < w.end; slice += way::SLICE, n += way::SLICE, i ^= 1) {
        if (adder < 0) {
            multiply_turn<F, TOKENS>(room[i], own, w, n);
            if (slice + way::SLICE < w.end) lh_load_pairs(own, w.group, w.lead, w.first, w.end, n + way::SLICE);
        }
        __syncthreads(); /* the slice is complete, and the one before has been added */
        if (is_adder) y = add_slice<F, TOKENS>(y, room[i], w, slice, row, t);
    }
    const int64_t o = group * LH_PACKED_ROWS + row;
    if (is_adder && o < g.out) lh_gemm_put(g, t, o, g.bias ? y + g.bias[o] : y);
}

/* Blocks: groups of rows, along y TOKENS tokens. */
template <typename F, int TOKENS>
static __global__ void __launch_bounds__(THREADS + lh_packed_way<F, TOKENS>::ADDING * LH_WARP, 1)
    packed_kernel(lh_gemm_args a)
{
    const int64_t t = (int64_t)blockIdx.y * TOKENS, left = a.tokens - t;
    lh_let_next_start();
    a.x = (const lh_rounded *)a.x + t * (a.in / LH_PACKED_COLS);
    a.y += t * a.y_ld;
    a.tokens = lh_min_i64(left, TOKENS);
    multiply_group<F, TOKENS>(a, blockIdx.x);
}

/* Blocks: tiles of experts, along y groups of rows. */
template <typename F, int TOKENS>
static __global__ void __launch_bounds__(THREADS + lh_packed_way<F, TOKENS>::ADDING * LH_WARP, 1)
    expert_packed_kernel(lh_expert_gemm_args a)
{
    lh_gemm_args g;
    lh_let_next_start();
    lh_wait_before();
    if (!lh_expert_tile<lh_rounded, TOKENS>(&g, a, (int)blockIdx.x)) return;
    g.order = a.order;
    multiply_group<F, TOKENS>(g, blockIdx.y);
}

/* ---- launches ---- */

static unsigned groups_of(int64_t rows)
{
    return (unsigned)((rows + LH_PACKED_ROWS - 1) / LH_PACKED_ROWS);
}

template <typename F, int TOKENS>
static lh_status launch(lh_stream *stream, const lh_gemm_args *a)
{
    const lh_shape shape = {dim3(groups_of(a->out), (unsigned)((a->tokens + TOKENS - 1) / TOKENS)),
                            THREADS + lh_packed_way<F, TOKENS>::ADDING * LH_WARP, 0};
    return lh_launch_early(stream, "gemm", shape, packed_kernel<F, TOKENS>, *a);
}

template <typename F, int TOKENS>
static lh_status launch_experts(lh_stream *stream, const lh_expert_gemm_args *a)
{
    const lh_shape shape = {dim3((unsigned)lh_expert_tiles<TOKENS>(&a->routes), groups_of(a->out)),
                            THREADS + lh_packed_way<F, TOKENS>::ADDING * LH_WARP, 0};
    return lh_launch_early(stream, "expert_gemm", shape, expert_packed_kernel<F, TOKENS>, *a);
}

/* Launches for 1, 2, 4 and 8 tokens of a block. */
typedef struct lh_packed_launches {
    int (*is_format)(const lh_format *);
    lh_status (*gemm[4])(lh_stream *, const lh_gemm_args *);
    lh_status (*experts[4])(lh_stream *, const lh_expert_gemm_args *);
} lh_packed_launches;

static const lh_packed_launches formats[] = {
#define ENTRY(...)                                                                                     \
    {lh_is_format<__VA_ARGS__>,                                                                        \
     {launch<__VA_ARGS__, 1>, launch<__VA_ARGS__, 2>, launch<__VA_ARGS__, 4>, launch<__VA_ARGS__, 8>}, \
     {launch_experts<__VA_ARGS__, 1>, launch_experts<__VA_ARGS__, 2>, launch_experts<__VA_ARGS__, 4>,  \
      launch_experts<__VA_ARGS__, 8>}},
    LH_FEW_BITS(ENTRY)
#undef ENTRY
};

static const lh_packed_launches *launches_of(const lh_format *format)
{
    const lh_packed_launches *f = formats;
    while (!f->is_format(format)) f++;
    return f;
}

/* The smallest tile with all tokens, or the largest. */
static int tile_of(int64_t tokens)
{
    return tokens <= 1 ? 0 : tokens <= 2 ? 1 : tokens <= 4 ? 2 : 3;
}

/* One matrix of a product. x: a->x, rounded. */
static lh_status multiply_matrix(lh_stream *stream, const lh_gemm_args *a, lh_rounded *x)
{
    lh_gemm_args packed = *a;
    if (a->w.format->is_plain || a->w.format->by_rows) return lh_cuda_gemm(stream, a);
    packed.x = x;
    packed.order = LH_ORDER_FIXED; /* y is added by its own thread, which keeps numbers of any size */
    return launches_of(a->w.format)->gemm[tile_of(a->tokens)](stream, &packed);
}

static lh_status multiply_chunk(lh_stream *stream, const lh_gemm_args *a)
{
    lh_gemm_args part = *a;
    lh_rounded *x;
    int64_t o = 0;
    LH_TRY(lh_stream_scratch(stream, &x, a->tokens * (a->in / LH_PACKED_COLS) * (int64_t)sizeof *x));
    LH_TRY(round_x(stream, "gemm", a, x));
    for (const lh_matrix *w = &a->w; o < a->out; w = w->next) {
        part.out = lh_matrix_rows(w, a->out - o);
        part.w = *w;
        part.w.next = NULL;
        part.y = a->y + o;
        part.bias = a->bias ? a->bias + o : NULL;
        LH_TRY(multiply_matrix(stream, &part, x));
        o += part.out;
    }
    return LH_OK;
}

lh_status lh_gemm_packed(lh_stream *stream, const lh_gemm_args *a)
{
    lh_gemm_args chunk = *a;
    for (int64_t t = 0; t < a->tokens; t += CHUNK) {
        chunk.x = (const char *)a->x + t * a->x_ld * lh_dtype_bytes(a->type);
        chunk.y = a->y + t * a->y_ld;
        chunk.tokens = lh_min_i64(a->tokens - t, CHUNK);
        LH_TRY(multiply_chunk(stream, &chunk));
    }
    return LH_OK;
}

lh_status lh_expert_gemm_packed(lh_stream *stream, const lh_expert_gemm_args *a)
{
    lh_expert_gemm_args packed = *a;
    lh_gemm_args rows = {};
    lh_rounded *x;
    rows.x = a->x, rows.x_ld = a->x_ld, rows.type = a->type;
    rows.tokens = a->routes.tokens * a->routes.top_k, rows.in = a->in;
    packed.x_ld = a->in / LH_PACKED_COLS;
    LH_TRY(lh_stream_scratch(stream, &x, rows.tokens * packed.x_ld * (int64_t)sizeof *x));
    LH_TRY(round_x(stream, "expert_gemm", &rows, x));
    packed.x = x;
    return launches_of(a->w.format)->experts[tile_of(a->routes.tokens)](stream, &packed);
}
