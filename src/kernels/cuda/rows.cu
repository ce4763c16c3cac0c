/* Rows of activations: embedding, norms, rotation; conversions, gates, sums, soft caps. */
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/q8.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/elementwise.h"

extern "C" {
#include "kernels/packed.h"
}

typedef __nv_bfloat16 bf16;

/* ---- embedding: each number read once, in the type of the table, and written once ---- */

template <typename T>
static __global__ void embed_kernel(lh_embed_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        int64_t row = a.ids[t] - a.first, is_own = row >= 0 && row < a.rows;
        const T *from = (const T *)a.table.data + (is_own ? row : 0) * a.dim;
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four x = lh_get4(from + i, is_own ? a.dim - i : 0, width);
            for (int j = 0; j < 4; j++) x.at[j] *= a.scale;
            lh_put4(a.y + t * a.dim + i, x, a.dim - i, width);
        }
    }
}

/* The same from a table of few bits, a number for a thread. */
__constant__ uint8_t iq4_codes[16] = {LH_IQ4_CODES};
static __global__ void embed_packed_kernel(lh_embed_args a, lh_format format)
{
    if (format.table) format.table = iq4_codes; /* the format's own is in host memory */
    a.table.format = &format;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        const int64_t row = a.ids[t] - a.first, is_own = row >= 0 && row < a.rows;
        for (int64_t i = lh_grid_first(); i < a.dim; i += lh_grid_step())
            a.y[t * a.dim + i] = is_own ? a.scale * lh_packed_value(&a.table, row, a.table.first + i) : 0.0f;
    }
}

lh_status lh_cuda_embed(lh_stream *stream, const lh_embed_args *a)
{
    if (!a->table.format->is_plain)
        return lh_launch(stream, "embed", lh_fours_shape(a->tokens, a->dim), embed_packed_kernel, *a, *a->table.format);
    lh_dtype type = a->table.format->plain;
    auto *kernel = type == LH_F32 ? embed_kernel<float> : embed_kernel<bf16>;
    int width = lh_width(a->table.data, a->dim, type) == 4 && lh_width(a->y, a->dim, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "embed", lh_fours_shape(a->tokens, a->dim), kernel, *a, width);
}

/* ---- root-mean-square norm ---- A warp (dim <= OF_WARP) or a block norms a head of a row, and each thread holds
 * HELD fours of it in registers: they are read once, all loads in flight together. The numbers of longer rows are read
 * again, from L1. 6 or 8 bytes moved per number; 6 or 8 more with an addend. */

enum { HELD = 4, WARPS = 8, MAX_THREADS = 512, OF_WARP = 4 * HELD * LH_WARP };

/* A head of a row. This thread has its fours number first, first + step, … */
typedef struct norm_row {
    const float *x, *w;
    int64_t t, x_at, y_at; /* x_at: also in rows of the addend and of the sum */
    int first, step, dim;
} norm_row;

static __device__ norm_row norm_row_of(const lh_rmsnorm_args &a, int64_t t, int64_t h, int first, int step)
{
    int64_t x_at = t * a.x_ld + h * a.dim;
    return norm_row{a.x + x_at, a.w + h * a.w_ld, t, x_at, t * a.y_ld + h * a.dim, 4 * first, 4 * step, (int)a.dim};
}

/* Numbers of a row from i on; WIDTH 4: rows of whole fours, aligned to them. */
template <int WIDTH>
static __device__ __forceinline__ int left(const norm_row &r, int i)
{
    return WIDTH == 1 ? r.dim - i : i < r.dim ? 4 : 0;
}

/* N fours of x from number `first` on. SUMS: plus the addend; the sums are stored. */
template <int WIDTH, int SUMS, int N>
static __device__ __forceinline__ void take_fours(lh_four (&x)[N], const lh_rmsnorm_args &a, const norm_row &r,
                                                  int first)
{
    lh_four by[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int i = first + k * r.step, n = left<WIDTH>(r, i);
        x[k] = lh_get4(r.x + i, n, WIDTH);
        if (SUMS)
            by[k] = a.addend_type == LH_F32 ? lh_get4((const float *)a.addend + r.x_at + i, n, WIDTH)
                                            : lh_get4((const bf16 *)a.addend + r.x_at + i, n, WIDTH);
    }
#pragma unroll
    for (int k = 0; k < N && SUMS; k++) {
        const int i = first + k * r.step;
        for (int j = 0; j < 4; j++) x[k].at[j] += by[k].at[j];
        lh_put4(a.sum + r.x_at + i, x[k], left<WIDTH>(r, i), WIDTH);
    }
}

/* Stores the four from number i on of y. */
template <typename Y, int WIDTH>
static __device__ __forceinline__ void put_normed(const lh_rmsnorm_args &a, const norm_row &r, lh_four x, int i,
                                                  float inverse)
{
    const int n = left<WIDTH>(r, i);
    Y *y = (Y *)a.y + r.y_at + i;
    lh_four normed = lh_normed(x, r.w + i, a, inverse, n, WIDTH);
    if (a.adds) {
        lh_four old = lh_get4(y, n, WIDTH);
        for (int j = 0; j < 4; j++) normed.at[j] += old.at[j];
    }
    lh_put4(y, normed, n, WIDTH);
}

static __device__ __forceinline__ float add_squares(float sum, const lh_four &x)
{
    for (int j = 0; j < 4; j++) sum = fmaf(x.at[j], x.at[j], sum);
    return sum;
}

/* sum: adds a number over the threads of the row. */
template <typename Y, int WIDTH, int SUMS, typename S>
static __device__ __forceinline__ void norm_one(const lh_rmsnorm_args &a, const norm_row &r, S sum)
{
    lh_four held[HELD], next[1];
    const int rest = r.first + HELD * r.step;
    float squares = 0;
    take_fours<WIDTH, SUMS>(held, a, r, r.first);
#pragma unroll
    for (int k = 0; k < HELD; k++) squares = add_squares(squares, held[k]);
    for (int i = rest; i < r.dim; i += r.step) {
        take_fours<WIDTH, SUMS>(next, a, r, i);
        squares = add_squares(squares, next[0]);
    }
    const float mean = a.squares ? lh_mean_of_given(a, r.t) : sum(squares) / (float)a.dim;
    const float inverse = 1.0f / sqrtf(mean + a.eps);
#pragma unroll
    for (int k = 0; k < HELD; k++) put_normed<Y, WIDTH>(a, r, held[k], r.first + k * r.step, inverse);
    for (int i = rest; i < r.dim; i += r.step) {
        const float *x = SUMS ? a.sum + r.x_at : r.x;
        put_normed<Y, WIDTH>(a, r, lh_get4(x + i, left<WIDTH>(r, i), WIDTH), i, inverse);
    }
}

template <typename Y, int WIDTH, int SUMS>
static __global__ void __launch_bounds__(WARPS *LH_WARP) norm_of_warps_kernel(const __grid_constant__ lh_rmsnorm_args a)
{
    lh_let_next_start();
    lh_wait_before();
    int64_t all = a.tokens * a.heads;
    for (int64_t r = (int64_t)blockIdx.x * WARPS + lh_warp(); r < all; r += (int64_t)gridDim.x * WARPS) {
        int64_t t = r / a.heads;
        norm_one<Y, WIDTH, SUMS>(a, norm_row_of(a, t, r - t * a.heads, lh_lane(), LH_WARP),
                                 [](float x) { return lh_warp_sum(x); });
    }
}

template <typename Y, int WIDTH, int SUMS>
static __global__ void __launch_bounds__(MAX_THREADS) norm_of_blocks_kernel(const __grid_constant__ lh_rmsnorm_args a)
{
    __shared__ float room[LH_WARP];
    lh_let_next_start();
    lh_prefetch_weights(a.w + blockIdx.y * a.w_ld, a.dim);
    lh_wait_before();
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        for (int64_t h = blockIdx.y; h < a.heads; h += gridDim.y)
            norm_one<Y, WIDTH, SUMS>(a, norm_row_of(a, t, h, (int)threadIdx.x, (int)blockDim.x),
                                     [&](float x) { return lh_block_sum(x, room); });
    }
}

template <typename Y, int WIDTH, int SUMS>
static lh_status launch_norm(lh_stream *stream, const lh_rmsnorm_args *a)
{
    const int64_t threads = (a->dim / (4 * HELD) + LH_WARP - 1) / LH_WARP * LH_WARP;
    const unsigned heads = (unsigned)(a->heads < 65535 ? a->heads : 65535);
    const lh_shape by_warps = {dim3(lh_blocks(a->tokens * a->heads, WARPS)), WARPS * LH_WARP, 0},
                   by_blocks = {dim3(lh_blocks(a->tokens, 1), heads),
                                threads < MAX_THREADS ? (int)threads : MAX_THREADS, 0};
    return a->dim <= OF_WARP ? lh_launch_early(stream, "rmsnorm", by_warps, norm_of_warps_kernel<Y, WIDTH, SUMS>, *a)
                             : lh_launch_early(stream, "rmsnorm", by_blocks, norm_of_blocks_kernel<Y, WIDTH, SUMS>, *a);
}

template <int WIDTH, int SUMS>
static lh_status norm_to(lh_stream *stream, const lh_rmsnorm_args *a)
{
    return a->y_type == LH_F32 ? launch_norm<float, WIDTH, SUMS>(stream, a) : launch_norm<bf16, WIDTH, SUMS>(stream, a);
}

lh_status lh_cuda_rmsnorm(lh_stream *stream, const lh_rmsnorm_args *a)
{
    const int is_wide = a->dim % 4 == 0 && lh_norm_width(a) == 4 && lh_width(a->y, a->y_ld, a->y_type) == 4 &&
                        lh_width(a->addend, a->x_ld, a->addend_type) == 4 && lh_width(a->sum, a->x_ld, LH_F32) == 4;
    if (a->dim == 0) return LH_OK;
    if (a->addend) return is_wide ? norm_to<4, 1>(stream, a) : norm_to<1, 1>(stream, a);
    return is_wide ? norm_to<4, 0>(stream, a) : norm_to<1, 0>(stream, a);
}

/* One warp per head. 4 bytes moved per number. */
static __global__ void squares_kernel(lh_squares_args a, int width)
{
    int64_t all = a.tokens * a.heads;
    for (int64_t r = (int64_t)blockIdx.x * WARPS + lh_warp(); r < all; r += (int64_t)gridDim.x * WARPS) {
        int64_t t = r / a.heads, h = r - t * a.heads;
        lh_lanes own = {lh_lane(), LH_WARP};
        float sum = lh_warp_sum(lh_squares_of(a.x + t * a.x_ld + h * a.dim, a.dim, own, width));
        if (lh_lane() == 0) a.y[t * a.y_ld + h] = sum;
    }
}

lh_status lh_cuda_squares(lh_stream *stream, const lh_squares_args *a)
{
    int width = lh_width(a->x, a->x_ld, LH_F32) == 4 && a->dim % 4 == 0 ? 4 : 1;
    if (a->tokens * a->heads == 0) return LH_OK;
    lh_shape shape = {dim3(lh_blocks(a->tokens * a->heads, WARPS)), WARPS * LH_WARP, 0};
    return lh_launch(stream, "squares", shape, squares_kernel, *a, width);
}

/* ---- rotation ---- A thread has pair i of ROPE_HEADS heads of a token: one sine and cosine for all of them, with all
 * loads in flight together. Neighbours have neighbouring pairs. 16 bytes moved per pair. */

enum { ROPE_HEADS = 4, ROPE_THREADS = 128 };

static __global__ void rope_kernel(lh_rope_args a)
{
    int half = (int)(a.rotary / 2);
    int64_t item = lh_grid_first(), i = item % half, first = item / half * ROPE_HEADS;
    if (first >= a.heads) return;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        float s, c, low[ROPE_HEADS], high[ROPE_HEADS], *x = a.x + t * a.ld + first * a.dim + i;
        const float scale = a.scale * lh_query_factor(&a.scaling, a.positions[t]);
        sincosf((float)a.positions[t] * a.inv_freq[i], &s, &c);
        c *= scale;
        s *= scale;
#pragma unroll
        for (int h = 0; h < ROPE_HEADS; h++) {
            if (first + h >= a.heads) continue;
            low[h] = x[h * a.dim];
            high[h] = x[h * a.dim + half];
        }
#pragma unroll
        for (int h = 0; h < ROPE_HEADS; h++) {
            if (first + h >= a.heads) continue;
            x[h * a.dim] = fmaf(low[h], c, -__fmul_rn(high[h], s));
            x[h * a.dim + half] = fmaf(high[h], c, __fmul_rn(low[h], s));
        }
    }
}

lh_status lh_cuda_rope(lh_stream *stream, const lh_rope_args *a)
{
    int64_t items = (a->heads + ROPE_HEADS - 1) / ROPE_HEADS * (a->rotary / 2), rows = a->tokens;
    unsigned blocks = (unsigned)((items + ROPE_THREADS - 1) / ROPE_THREADS);
    lh_shape shape = {dim3(blocks, (unsigned)(rows < 65535 ? rows : 65535)), ROPE_THREADS, 0};
    return lh_launch(stream, "rope", shape, rope_kernel, *a);
}

/* ---- numbers of rows: sums, soft caps, conversions ---- Each input is read once and each output written once,
 * four numbers per thread, with enough threads to keep the memory busy. */

static int width_of(int one, int other)
{
    return one == 4 && other == 4 ? 4 : 1;
}

/* y and x read, y written: 10 or 12 bytes per number. */
template <typename X>
static __global__ void add_kernel(lh_add_args a, int width)
{
    lh_let_next_start();
    lh_wait_before();
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four y = lh_get4(a.y + t * a.y_ld + i, a.dim - i, width);
            lh_four x = lh_get4((const X *)a.x + t * a.x_ld + i, a.dim - i, width);
            for (int j = 0; j < 4; j++) y.at[j] += x.at[j];
            lh_put4(a.y + t * a.y_ld + i, y, a.dim - i, width);
        }
    }
}

lh_status lh_cuda_add(lh_stream *stream, const lh_add_args *a)
{
    auto *kernel = a->x_type == LH_F32 ? add_kernel<float> : add_kernel<bf16>;
    int width = width_of(lh_width(a->y, a->y_ld, LH_F32), lh_width(a->x, a->x_ld, a->x_type));
    return lh_launch_early(stream, "add", lh_fours_shape(a->tokens, a->dim), kernel, *a, width);
}

static __global__ void softcap_kernel(lh_softcap_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        for (int j = 0; j < 4; j++) x.at[j] = lh_softcapped(x.at[j], a.cap);
        lh_put4(a.x + i, x, a.count - i, width);
    }
}

lh_status lh_cuda_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    return lh_launch(stream, "softcap", lh_fours_shape(1, a->count), softcap_kernel, *a, lh_width(a->x, 0, LH_F32));
}

static __global__ void sum_shards_kernel(lh_sum_shards_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four sum = {{0, 0, 0, 0}};
        if (a.shards > 0) sum = lh_get4(a.parts + i, a.count - i, width);
        for (int64_t s = 1; s < a.shards; s++) {
            lh_four part = lh_get4(a.parts + s * a.count + i, a.count - i, width);
            for (int j = 0; j < 4; j++) sum.at[j] += part.at[j];
        }
        lh_put4(a.y + i, sum, a.count - i, width);
    }
}

lh_status lh_cuda_sum_shards(lh_stream *stream, const lh_sum_shards_args *a)
{
    int width = width_of(lh_width(a->y, 0, LH_F32), lh_width(a->parts, a->shards > 1 ? a->count : 0, LH_F32));
    return lh_launch(stream, "sum_shards", lh_fours_shape(1, a->count), sum_shards_kernel, *a, width);
}

/* All threads that find one write the same number. */
static __global__ void check_finite_kernel(lh_check_finite_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width); /* 0 after the last */
        int finite = 1;
        for (int j = 0; j < 4; j++) finite &= isfinite(x.at[j]) != 0;
        if (!finite) *a.wrong = 1;
    }
}

lh_status lh_cuda_check_finite(lh_stream *stream, const lh_check_finite_args *a)
{
    return lh_launch(stream, "check_finite", lh_fours_shape(1, a->count), check_finite_kernel, *a,
                     lh_width(a->x, 0, LH_F32));
}

template <typename Y, typename X>
static __global__ void convert_kernel(lh_convert_args a, int width)
{
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        for (int64_t i = 4 * lh_grid_first(); i < a.cols; i += 4 * lh_grid_step()) {
            lh_four x = lh_get4((const X *)a.src + r * a.src_ld + i, a.cols - i, width);
            lh_put4((Y *)a.dst + r * a.dst_ld + i, x, a.cols - i, width);
        }
    }
}

/* Rows to and from 8 bits: a warp has a row. */
template <typename X>
static __global__ void quantise_kernel(lh_convert_args a, int width)
{
    const int64_t first = LH_OF_LANE * lh_lane();
    for (int64_t r = (int64_t)blockIdx.x * WARPS + lh_warp(); r < a.rows; r += (int64_t)gridDim.x * WARPS) {
        float x[LH_OF_LANE];
        lh_get_of_lane(x, (const X *)a.src + r * a.src_ld + first, a.cols - first, width);
        if (a.are_keys) lh_hadamard(x, (int)a.cols);
        lh_quantise((int8_t *)a.dst + r * a.dst_ld, a.dst_scale + r, x, a.cols, width);
    }
}

template <typename Y>
static __global__ void widen_kernel(lh_convert_args a, int width)
{
    const int64_t first = LH_OF_LANE * lh_lane();
    for (int64_t r = (int64_t)blockIdx.x * WARPS + lh_warp(); r < a.rows; r += (int64_t)gridDim.x * WARPS) {
        float x[LH_OF_LANE];
        lh_get_of_lane(x, (const int8_t *)a.src + r * a.src_ld + first, a.cols - first, width);
#pragma unroll
        for (int i = 0; i < LH_OF_LANE; i++) x[i] = __fmul_rn(a.src_scale[r], x[i]);
        if (a.are_keys) lh_hadamard_inverse(x, (int)a.cols);
        lh_put_of_lane((Y *)a.dst + r * a.dst_ld + first, x, a.cols - first, width);
    }
}

typedef void (*convert_fn)(lh_convert_args, int);

static lh_status convert_codes(lh_stream *stream, const lh_convert_args *a, int width)
{
    const convert_fn kernel = a->dst_type == LH_Q8
                                  ? (a->src_type == LH_F32 ? quantise_kernel<float> : quantise_kernel<bf16>)
                                  : (a->dst_type == LH_F32 ? widen_kernel<float> : widen_kernel<bf16>);
    if (a->cols > LH_ROW_OF_WARP)
        LH_FAIL(LH_EINTERNAL, "convert of q8 on a GPU: rows of %lld numbers, more than %d", (long long)a->cols,
                +LH_ROW_OF_WARP);
    const lh_shape shape = {dim3(lh_blocks(a->rows, WARPS)), WARPS * LH_WARP, 0};
    return lh_launch(stream, "convert", shape, kernel, *a, width);
}

lh_status lh_cuda_convert(lh_stream *stream, const lh_convert_args *a)
{
    auto *kernel = a->dst_type == LH_F32
                       ? (a->src_type == LH_F32 ? convert_kernel<float, float> : convert_kernel<float, bf16>)
                       : (a->src_type == LH_F32 ? convert_kernel<bf16, float> : convert_kernel<bf16, bf16>);
    int width = width_of(lh_width(a->dst, a->dst_ld, a->dst_type), lh_width(a->src, a->src_ld, a->src_type));
    if (a->src_type == LH_Q8 || a->dst_type == LH_Q8) return convert_codes(stream, a, width);
    return lh_launch(stream, "convert", lh_fours_shape(a->rows, a->cols), kernel, *a, width);
}

/* ---- gates ---- A thread has PIECES pieces of 16 bytes of the gates and of the values that they multiply, all in
 * flight together. 6 to 12 bytes moved per number. */

enum { PIECES = 2, GATED_THREADS = 256 };

/* WIDE: rows consist of whole pieces, aligned to them. */
template <int WIDE, typename X, int N>
static __device__ __forceinline__ void load_piece(float (&x)[N], const X *p, int64_t n)
{
    if (!WIDE)
        lh_load_some(x, p, n);
    else if (n > 0)
        lh_load_streaming(x, p);
}

template <int WIDE, typename Y, int N>
static __device__ __forceinline__ void store_piece(Y *p, const float (&x)[N], int64_t n)
{
    if (WIDE && n > 0) lh_store_wide(p, x);
#pragma unroll
    for (int i = 0; i < N && !WIDE; i++)
        if (i < n) lh_put(p + i, x[i]);
}

template <typename Y, typename X, int WIDE, lh_gate KIND>
static __global__ void __launch_bounds__(GATED_THREADS) gated_kernel(lh_gated_args a)
{
    constexpr int N = lh_wide<X>();
    const int64_t step = (int64_t)blockDim.x * N, first = PIECES * blockIdx.x * step + threadIdx.x * N;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        const X *gates = (const X *)a.gate + t * a.ld + first, *ups = (const X *)a.up + t * a.ld + first;
        Y *y = (Y *)a.y + t * a.y_ld + first;
        float gate[PIECES][N] = {}, up[PIECES][N] = {};
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            load_piece<WIDE>(gate[k], gates + k * step, a.dim - first - k * step);
            load_piece<WIDE>(up[k], ups + k * step, a.dim - first - k * step);
        }
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
#pragma unroll
            for (int i = 0; i < N; i++) up[k][i] *= lh_gate_of(gate[k][i], KIND);
            store_piece<WIDE>(y + k * step, up[k], a.dim - first - k * step);
        }
    }
}

template <typename Y, typename X, int WIDE>
static lh_status launch_gated(lh_stream *stream, const lh_gated_args *a)
{
    static void (*const kernels[])(lh_gated_args) = {gated_kernel<Y, X, WIDE, LH_GATE_SILU>,
                                                     gated_kernel<Y, X, WIDE, LH_GATE_GELU_TANH>,
                                                     gated_kernel<Y, X, WIDE, LH_GATE_GELU>};
    const int64_t most = 65535, pieces = (a->dim + lh_wide<X>() - 1) / lh_wide<X>(),
                  blocks = (pieces + PIECES * GATED_THREADS - 1) / (PIECES * GATED_THREADS);
    if (a->dim == 0 || a->tokens == 0) return LH_OK;
    const int64_t warps = (pieces + blocks * PIECES * LH_WARP - 1) / (blocks * PIECES * LH_WARP);
    lh_shape shape = {dim3((unsigned)blocks, (unsigned)(a->tokens < most ? a->tokens : most)), (int)warps * LH_WARP, 0};
    return lh_launch(stream, "gated", shape, kernels[a->gate_kind], *a);
}

template <typename X>
static lh_status gate_rows(lh_stream *stream, const lh_gated_args *a)
{
    const int is_wide = a->dim % lh_wide<X>() == 0 && lh_is_wide(a->gate, a->ld, a->x_type) &&
                        lh_is_wide(a->up, a->ld, a->x_type) && lh_is_wide(a->y, a->y_ld, a->y_type);
    auto *launched = a->y_type == LH_F32 ? (is_wide ? launch_gated<float, X, 1> : launch_gated<float, X, 0>)
                                         : (is_wide ? launch_gated<bf16, X, 1> : launch_gated<bf16, X, 0>);
    return launched(stream, a);
}

lh_status lh_cuda_gated(lh_stream *stream, const lh_gated_args *a)
{
    return a->x_type == LH_F32 ? gate_rows<float>(stream, a) : gate_rows<bf16>(stream, a);
}
