/* Appending to ragged caches, after the norms and the rotation of queries and keys, in one kernel: a row of a head
 * comes from memory once. A block owns the rows of WARPS heads of one token, whose sines and cosines it makes once;
 * query heads come first, then KV heads, of which a warp appends the key that it has rotated and the value. Where one
 * token is appended its warps raise the lengths; else a second kernel does when all have read them. Bytes: 8 a number
 * of queries, 14 of keys, 6 of values, and 2 more in f32. */
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/elementwise.h"

enum { SEQS = 24, WARPS = 8, THREADS = WARPS * LH_WARP };

/* Some sequences of a batch; the first one's rows begin at `first`. */
typedef struct append_slice {
    lh_ragged seqs[SEQS];
    lh_rope_append_args all;
    int64_t first;
    int width; /* numbers moved at once */
} append_slice;

/* Sines and cosines of a row, [rotary / 2] each, in shared memory. */
typedef struct turn {
    const float *sines, *cosines;
} turn;

static __device__ turn turn_of(const lh_rope_args &a, int64_t row)
{
    const int64_t half = a.rotary / 2;
    float *sines = (float *)lh_shared(), *cosines = sines + half;
    for (int64_t i = threadIdx.x; i < half; i += THREADS) {
        float s, c;
        sincosf((float)a.positions[row] * a.inv_freq[i], &s, &c);
        sines[i] = s * a.scale;
        cosines[i] = c * a.scale;
    }
    __syncthreads();
    return turn{sines, cosines};
}

static __device__ __forceinline__ void norm_head(const lh_rmsnorm_args &a, int64_t row, int64_t h, int width)
{
    const float *x = a.x + row * a.x_ld + h * a.dim;
    lh_lanes own = {lh_lane(), LH_WARP};
    if (!a.heads) return;
    float mean = a.squares ? lh_mean_of_given(a, row) : lh_warp_sum(lh_squares_of(x, a.dim, own, width)) / (float)a.dim;
    lh_norm_row((float *)a.y + row * a.y_ld + h * a.dim, x, a.w + h * a.w_ld, a, mean, own, width);
    __syncwarp();
}

static __device__ __forceinline__ void rotate_head(const lh_rope_args &a, const turn &by, int64_t row, int64_t h)
{
    const int64_t half = a.rotary / 2;
    float *low = a.x + row * a.ld + h * a.dim, *high = low + half;
    if (!a.heads) return;
    const float factor = lh_query_factor(&a.scaling, a.positions[row]);
    for (int64_t i = lh_lane(); i < half; i += LH_WARP) {
        float x = low[i], y = high[i], c = by.cosines[i] * factor, s = by.sines[i] * factor;
        low[i] = fmaf(x, c, -__fmul_rn(y, s));
        high[i] = fmaf(y, c, __fmul_rn(x, s));
    }
    __syncwarp();
}

template <typename T>
static __device__ __forceinline__ void append_numbers(T *to, const float *from, int64_t n, int width)
{
    for (int64_t i = 4 * lh_lane(); i < n; i += 4 * LH_WARP)
        lh_put4(to + i, lh_get4(from + i, n - i, width), n - i, width);
}

/* Key and value of head h in `row` become the entry in `slot`. */
static __device__ void append_entry(const append_slice &a, const lh_ragged &kv, int64_t row, int64_t h, int64_t slot)
{
    const lh_append_args &args = a.all.append;
    const int64_t d = kv.head_dim, at = row * args.ld + h * d;
    if (kv.type == LH_F32) {
        append_numbers((float *)kv.k + slot * d, args.k + at, d, a.width);
        append_numbers((float *)kv.v + slot * d, args.v + at, d, a.width);
    } else {
        append_numbers((__nv_bfloat16 *)kv.k + slot * d, args.k + at, d, a.width);
        append_numbers((__nv_bfloat16 *)kv.v + slot * d, args.v + at, d, a.width);
    }
    for (int64_t c = lh_lane(); kv.stats && c < kv.stat_count; c += LH_WARP) kv.stats[slot * kv.stat_count + c] = 0.0f;
    if (lh_lane() > 0) return;
    if (kv.positions) kv.positions[slot] = args.positions[row];
    if (kv.bias) kv.bias[slot] = 0.0f;
}

/* Blocks: tokens, heads, sequences. */
static __global__ void __launch_bounds__(THREADS) append_kernel(const __grid_constant__ append_slice a)
{
    const lh_rope_append_args &all = a.all;
    const lh_ragged &kv = a.seqs[blockIdx.z];
    int64_t tokens = all.append.tokens, t = blockIdx.x, row = a.first + blockIdx.z * tokens + t,
            h = (int64_t)blockIdx.y * WARPS + lh_warp();
    turn by = {NULL, NULL};
    if (all.q.heads || all.k.heads) by = turn_of(all.q.heads ? all.q : all.k, row);
    if (h < all.q.heads) {
        norm_head(all.q_norm, row, h, a.width);
        rotate_head(all.q, by, row, h);
        return;
    }
    h -= all.q.heads;
    if (h >= kv.heads) return;
    norm_head(all.k_norm, row, h, a.width);
    rotate_head(all.k, by, row, h);
    append_entry(a, kv, row, h, kv.offset[h] + kv.len[h] + t);
    __syncwarp(); /* all have read the length */
    if (tokens == 1 && lh_lane() == 0) kv.len[h]++;
}

static __global__ void raise_kernel(const __grid_constant__ append_slice a)
{
    const lh_ragged &kv = a.seqs[blockIdx.z];
    for (int64_t h = threadIdx.x; h < kv.heads; h += blockDim.x) kv.len[h] += a.all.append.tokens;
}

/* In rows and caches alike. */
static int width_of(const lh_rope_append_args *all)
{
    const lh_append_args *a = &all->append;
    int is_wide = lh_width(a->k, a->ld, LH_F32) == 4 && lh_width(a->v, a->ld, LH_F32) == 4;
    is_wide = is_wide && (!all->q_norm.heads || lh_norm_width(&all->q_norm) == 4);
    is_wide = is_wide && (!all->k_norm.heads || lh_norm_width(&all->k_norm) == 4);
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        is_wide = is_wide && lh_width(kv->k, kv->head_dim, kv->type) == 4;
        is_wide = is_wide && lh_width(kv->v, kv->head_dim, kv->type) == 4;
    }
    return is_wide ? 4 : 1;
}

lh_status lh_cuda_rope_append(lh_stream *stream, const lh_rope_append_args *all)
{
    const lh_append_args *a = &all->append;
    int64_t rotary = all->q.heads ? all->q.rotary : all->k.heads ? all->k.rotary : 0;
    append_slice slice = {};
    slice.all = *all;
    slice.width = width_of(all);
    for (int64_t b = 0; b < a->batch; b += SEQS) {
        unsigned count = (unsigned)(a->batch - b < SEQS ? a->batch - b : (int64_t)SEQS);
        int64_t heads = 0;
        for (unsigned i = 0; i < count; i++) {
            slice.seqs[i] = a->seqs[b + i];
            heads = slice.seqs[i].heads > heads ? slice.seqs[i].heads : heads;
        }
        slice.first = b * a->tokens;
        heads += all->q.heads;
        lh_shape shape = {dim3((unsigned)a->tokens, (unsigned)((heads + WARPS - 1) / WARPS), count), THREADS,
                          rotary * (int64_t)sizeof(float)};
        LH_TRY(lh_launch(stream, "append", shape, append_kernel, slice));
        if (a->tokens > 1)
            LH_TRY(lh_launch(stream, "append", lh_shape{dim3(1, 1, count), LH_WARP, 0}, raise_kernel, slice));
    }
    return LH_OK;
}

lh_status lh_cuda_append(lh_stream *stream, const lh_append_args *a)
{
    lh_rope_append_args all = {};
    all.append = *a;
    return lh_cuda_rope_append(stream, &all);
}

/* ---- query rows in a ring ---- */

/* A row that another one replaces is left out: no two blocks write to one place. */
static __global__ void put_rows_kernel(lh_put_rows_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        int64_t p = a.positions[t];
        if (p >= a.head && t + a.rows - a.head < a.tokens) continue;
        float *row = a.ring + lh_ring_place(p, a.rows, a.head) * a.width;
        for (int64_t i = 4 * lh_grid_first(); i < a.width; i += 4 * lh_grid_step())
            lh_put4(row + i, lh_get4(a.x + t * a.x_ld + i, a.width - i, width), a.width - i, width);
    }
}

lh_status lh_cuda_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    int width = lh_width(a->ring, a->width, LH_F32) == 4 && lh_width(a->x, a->x_ld, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "put_rows", lh_fours_shape(a->tokens, a->width), put_rows_kernel, *a, width);
}
