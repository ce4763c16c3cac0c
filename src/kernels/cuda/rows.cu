/* Rows of a block of tokens: embedding, norms, rotation. */
#include "kernels/cuda/vector.cuh"

/* ---- embedding: each number read once, in the type of the table, and written once ---- */

template <typename T>
static __global__ void embed_kernel(lh_embed_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        int64_t row = a.ids[t] - a.first, is_own = row >= 0 && row < a.rows;
        const T *from = (const T *)a.table + (is_own ? row : 0) * a.dim;
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four x = lh_get4(from + i, is_own ? a.dim - i : 0, width);
            for (int j = 0; j < 4; j++) x.at[j] *= a.scale;
            lh_put4(a.y + t * a.dim + i, x, a.dim - i, width);
        }
    }
}

lh_status lh_cuda_embed(lh_stream *stream, const lh_embed_args *a)
{
    auto *kernel = a->type == LH_F32 ? embed_kernel<float> : embed_kernel<__nv_bfloat16>;
    int width = lh_width(a->table, a->dim, a->type) == 4 && lh_width(a->y, a->dim, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "embed", lh_fours_shape(a->tokens, a->dim), kernel, *a, width);
}

/* ---- root-mean-square norm ----
 * A warp (dim <= WARP_DIM) or a block owns one head of one row, and a thread every so many fours of it. They are read
 * twice, the second time from L1. Who adds which squares depends on dim alone. */

enum { WARP_DIM = 256, WARPS = 8, MOST_THREADS = 512 };

typedef struct lh_lanes {
    int64_t first, step; /* fours of this thread */
} lh_lanes;

static __device__ float squares_of(const float *x, int64_t dim, lh_lanes own, int width)
{
    float sum = 0;
    for (int64_t i = 4 * own.first; i < dim; i += 4 * own.step) {
        lh_four v = lh_get4(x + i, dim - i, width);
        for (int j = 0; j < 4; j++) sum = fmaf(v.at[j], v.at[j], sum);
    }
    return sum;
}

/* The row at `at_x` of x, of which the squares add up to `squares`. */
template <typename Y>
static __device__ void scale_row(const lh_rmsnorm_args &a, int64_t at[2], float squares, lh_lanes own, int width)
{
    float inverse = 1.0f / sqrtf(squares / (float)a.dim + a.eps);
    for (int64_t i = 4 * own.first; i < a.dim; i += 4 * own.step) {
        lh_four x = lh_get4(a.x + at[0] + i, a.dim - i, width), w = lh_get4(a.w + i, a.dim - i, width);
        for (int j = 0; j < 4; j++) x.at[j] = __fmul_rn(__fmul_rn(x.at[j], inverse), a.offset + w.at[j]);
        lh_put4((Y *)a.y + at[1] + i, x, a.dim - i, width);
    }
}

template <typename Y>
static __global__ void norm_of_warps_kernel(lh_rmsnorm_args a, int width)
{
    int64_t all = a.tokens * a.heads;
    for (int64_t r = (int64_t)blockIdx.x * WARPS + lh_warp(); r < all; r += (int64_t)gridDim.x * WARPS) {
        int64_t t = r / a.heads, h = r - t * a.heads, at[2] = {t * a.x_ld + h * a.dim, t * a.y_ld + h * a.dim};
        lh_lanes own = {lh_lane(), LH_WARP};
        scale_row<Y>(a, at, lh_warp_sum(squares_of(a.x + at[0], a.dim, own, width)), own, width);
    }
}

template <typename Y>
static __global__ void __launch_bounds__(MOST_THREADS) norm_of_blocks_kernel(lh_rmsnorm_args a, int width)
{
    __shared__ float room[LH_WARP];
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        for (int64_t h = blockIdx.y; h < a.heads; h += gridDim.y) {
            int64_t at[2] = {t * a.x_ld + h * a.dim, t * a.y_ld + h * a.dim};
            lh_lanes own = {threadIdx.x, blockDim.x};
            scale_row<Y>(a, at, lh_block_sum(squares_of(a.x + at[0], a.dim, own, width), room), own, width);
        }
    }
}

lh_status lh_cuda_rmsnorm(lh_stream *stream, const lh_rmsnorm_args *a)
{
    typedef __nv_bfloat16 bf16;
    const int64_t each = 8; /* numbers a thread, about */
    int64_t threads = (a->dim / each + LH_WARP - 1) / LH_WARP * LH_WARP, heads = a->heads < 65535 ? a->heads : 65535;
    int is_narrow = a->dim <= WARP_DIM;
    int width = lh_width(a->x, a->x_ld, LH_F32) == 4 && lh_width(a->y, a->y_ld, a->y_type) == 4 &&
                        lh_width(a->w, a->heads > 1 ? a->dim : 0, LH_F32) == 4
                    ? 4
                    : 1;
    if (a->dim == 0) return LH_OK;
    lh_shape shape = {dim3(lh_blocks(a->tokens, 1), (unsigned)heads), MOST_THREADS, 0};
    if (threads < shape.threads) shape.threads = (int)threads;
    if (is_narrow) shape = lh_shape{dim3(lh_blocks(a->tokens * a->heads, WARPS)), WARPS * LH_WARP, 0};
    auto *kernel = is_narrow ? (a->y_type == LH_F32 ? norm_of_warps_kernel<float> : norm_of_warps_kernel<bf16>)
                             : (a->y_type == LH_F32 ? norm_of_blocks_kernel<float> : norm_of_blocks_kernel<bf16>);
    return lh_launch(stream, "rmsnorm", shape, kernel, *a, width);
}

/* ---- rotation ----
 * A thread owns pair i of ROPE_HEADS heads of a token: one sine and cosine for all of them, and all their numbers under
 * way at once. Neighbours own neighbouring pairs. 16 bytes moved a pair. */

enum { ROPE_HEADS = 4, ROPE_THREADS = 128 };

static __global__ void rope_kernel(lh_rope_args a)
{
    int half = (int)(a.rotary / 2);
    int64_t item = lh_grid_first(), i = item % half, first = item / half * ROPE_HEADS;
    if (first >= a.heads) return;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        float s, c, low[ROPE_HEADS], high[ROPE_HEADS], *x = a.x + t * a.ld + first * a.dim + i;
        sincosf((float)a.positions[t] * a.inv_freq[i], &s, &c);
        c *= a.scale;
        s *= a.scale;
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
