/* Norms of keys and values, KeyDiff, learnt scores, and norms of projected values. Neighbouring lanes share a vector,
 * 16 bytes each, and have AT_ONCE vectors in flight; bound by reading the cache once (entry_norms) or twice
 * (key_difference, which needs the mean before the cosines). */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma_parts.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/elementwise.h"

enum {
    THREADS = 256,
    AT_ONCE = 4,
    CHUNK = 256, /* entries with a common sum of directions */
    MEAN_SLICES = 32
};

/* Vectors of `lanes` lanes; this lane's first number is `at`. WIDE: all of it can be read 16 bytes at a time. */
typedef struct lh_lanes {
    int count, group, groups, at, step;
} lh_lanes;

template <typename T>
static __device__ __forceinline__ lh_lanes lanes_here(int lanes)
{
    int lane = (int)threadIdx.x % lanes;
    return lh_lanes{lanes, (int)threadIdx.x / lanes, (int)blockDim.x / lanes, lane * lh_wide<T>(),
                    lanes * lh_wide<T>()};
}

template <typename T, int WIDE>
static __device__ __forceinline__ void load(float (&x)[lh_wide<T>()], const T *p, int64_t n)
{
    if (WIDE)
        lh_load_wide(x, p);
    else
        lh_load_some(x, p, n);
}

/* sums[u] = the squares of this lane's part of vector entries[u]; the first numbers of every vector are loaded before
 * any is used. */
template <typename T, int WIDE>
static __device__ __forceinline__ void add_squares(float (&sums)[AT_ONCE], const T *const (&entries)[AT_ONCE],
                                                   const lh_lanes &l, int64_t d)
{
    for (int u = 0; u < AT_ONCE; u++) sums[u] = 0.0f;
    for (int64_t i = l.at; i < d; i += l.step) {
        float x[AT_ONCE][lh_wide<T>()];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) load<T, WIDE>(x[u], entries[u] + i, d - i);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
#pragma unroll
            for (int c = 0; c < lh_wide<T>(); c++) sums[u] = fmaf(x[u][c], x[u][c], sums[u]);
        }
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) sums[u] = lh_lanes_sum(sums[u], l.count);
}

/* Entries first + group, + groups, … of head h; after the end the last one repeated. */
template <typename T>
static __device__ __forceinline__ void find_entries(const T *(&entries)[AT_ONCE], const T *head, const lh_lanes &l,
                                                    const int64_t range[2], int64_t d)
{
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int64_t s = range[0] + u * l.groups + l.group;
        entries[u] = head + (s < range[1] ? s : range[1] - 1) * d;
    }
}

template <typename T, int WIDE>
static __global__ void entry_norms_kernel(lh_entry_norms_args a, lh_ragged kv, int lanes)
{
    const lh_lanes l = lanes_here<T>(lanes);
    int64_t h = blockIdx.y, d = kv.head_dim, len = kv.len[h], first = lh_slot_of_last(len, a.last),
            each = l.groups * AT_ONCE;
    const T *head = (const T *)(a.part == LH_PART_KEY ? kv.k : kv.v) + kv.offset[h] * d, *entries[AT_ONCE];
    for (first += blockIdx.x * each; first < len; first += gridDim.x * each) {
        const int64_t range[2] = {first, len};
        float squares[AT_ONCE];
        find_entries(entries, head, l, range, d);
        add_squares<T, WIDE>(squares, entries, l, d);
        for (int u = 0; u < AT_ONCE; u++) {
            int64_t s = first + u * l.groups + l.group;
            float norm = a.kind == LH_NORM_SQUARE ? squares[u] : sqrtf(squares[u]);
            if (l.at == 0 && s < len) *lh_slot_at(&a.y, h, s, 0) = a.kind == LH_NORM_MINUS_L2 ? -norm : norm;
        }
    }
}

/* Returns 1 if all vectors of an arena can be read 16 bytes at a time. */
static int is_wide(const void *pool, const lh_ragged *kv)
{
    return (uintptr_t)pool % 16 == 0 && kv->head_dim * lh_dtype_bytes(kv->type) % 16 == 0;
}

lh_status lh_cuda_entry_norms(lh_stream *stream, const lh_entry_norms_args *a)
{
    typedef __nv_bfloat16 bf16;
    const lh_ragged *kv = a->kv;
    int wide = is_wide(a->part == LH_PART_KEY ? kv->k : kv->v, kv), lanes = lh_lanes_of(kv->head_dim, kv->type);
    lh_shape shape = {dim3(lh_blocks_per_head(stream, kv->heads), (unsigned)kv->heads), THREADS, 0};
    auto *kernel = kv->type == LH_F32 ? (wide ? entry_norms_kernel<float, 1> : entry_norms_kernel<float, 0>)
                                      : (wide ? entry_norms_kernel<bf16, 1> : entry_norms_kernel<bf16, 0>);
    return lh_launch(stream, "entry_norms", shape, kernel, *a, *kv, lanes);
}

/* ---- KeyDiff ---- */

typedef struct lh_directions {
    float *sums; /* [heads, chunks, head_dim] of the directions of a chunk's keys */
    float *mean; /* [heads, head_dim] direction of the mean */
    int64_t chunks;
    int lanes;
} lh_directions;

/* One over the norm, which is at least 1e-8. */
static __device__ __forceinline__ float inverse_of(float squares)
{
    return 1.0f / fmaxf(sqrtf(squares), 1e-8f);
}

/* A block has a chunk of entries, and blockIdx.z selects the columns that its lanes cover. Groups take entries in
 * turns, and their sums are added in order. */
template <typename T, int WIDE>
static __global__ void directions_kernel(lh_directions a, lh_ragged kv)
{
    const int N = lh_wide<T>();
    __shared__ float room[THREADS * 8]; /* [groups, lanes * N] */
    const lh_lanes l = lanes_here<T>(a.lanes);
    int64_t h = blockIdx.y, d = kv.head_dim, len = kv.len[h], first = (int64_t)blockIdx.x * CHUNK;
    int64_t range[2] = {first, first + CHUNK < len ? first + CHUNK : len}, from = (int64_t)blockIdx.z * l.step;
    const T *head = (const T *)kv.k + kv.offset[h] * d, *entries[AT_ONCE];
    float sums[N] = {};
    if (first >= len) return;
    for (; range[0] < range[1]; range[0] += l.groups * AT_ONCE) {
        float squares[AT_ONCE], x[N];
        find_entries(entries, head, l, range, d);
        add_squares<T, WIDE>(squares, entries, l, d);
        for (int u = 0; u < AT_ONCE; u++) {
            float weight = range[0] + u * l.groups + l.group < range[1] ? inverse_of(squares[u]) : 0.0f;
            if (from + l.at >= d || weight == 0.0f) continue;
            load<T, WIDE>(x, entries[u] + from + l.at, d - from - l.at);
            for (int c = 0; c < N; c++) sums[c] = fmaf(x[c], weight, sums[c]);
        }
    }
    for (int c = 0; c < N; c++) room[l.group * l.step + l.at + c] = sums[c];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < l.step && from + i < d; i += THREADS) {
        float sum = 0.0f;
        for (int g = 0; g < l.groups; g++) sum += room[g * l.step + i];
        a.sums[(h * a.chunks + blockIdx.x) * d + from + i] = sum;
    }
}

/* The direction of the mean of head blockIdx.x. A warp has 32 columns of every MEAN_SLICES-th chunk, and the slices are
 * added in order. */
static __global__ void __launch_bounds__(MEAN_SLICES *LH_WARP) mean_direction_kernel(lh_directions a, lh_ragged kv)
{
    __shared__ double room[MEAN_SLICES][LH_WARP + 1], squares_room[LH_WARP];
    int64_t h = blockIdx.x, d = kv.head_dim, len = kv.len[h], chunks = (len + CHUNK - 1) / CHUNK;
    float *mean = a.mean + h * d;
    double squares = 0.0;
    for (int64_t first = 0; first < d; first += LH_WARP) {
        int64_t i = first + lh_lane();
        double sum = 0.0;
        for (int64_t c = lh_warp(); c < chunks && i < d; c += MEAN_SLICES) sum += a.sums[(h * a.chunks + c) * d + i];
        room[lh_warp()][lh_lane()] = sum;
        __syncthreads();
        if (lh_warp() == 0 && i < d) {
            for (int slice = 1; slice < MEAN_SLICES; slice++) sum += room[slice][lh_lane()];
            mean[i] = (float)(sum / (double)len);
            squares += (double)mean[i] * mean[i];
        }
        __syncthreads();
    }
    double norm = sqrt(lh_block_sum(squares, squares_room));
    if (lh_warp() > 0) return;
    for (int64_t i = lh_lane(); i < d; i += LH_WARP) mean[i] = (float)(mean[i] / (norm > 1e-8 ? norm : 1e-8));
}

template <typename T, int WIDE>
static __global__ void key_difference_kernel(lh_key_difference_args a, lh_directions m, lh_ragged kv)
{
    const int N = lh_wide<T>();
    const lh_lanes l = lanes_here<T>(m.lanes);
    int64_t h = blockIdx.y, d = kv.head_dim, len = kv.len[h], each = l.groups * AT_ONCE;
    const T *head = (const T *)kv.k + kv.offset[h] * d, *entries[AT_ONCE];
    for (int64_t first = blockIdx.x * each; first < len; first += gridDim.x * each) {
        const int64_t range[2] = {first, len};
        float squares[AT_ONCE], dots[AT_ONCE] = {}, x[N], mean[N];
        find_entries(entries, head, l, range, d);
        add_squares<T, WIDE>(squares, entries, l, d);
        for (int64_t i = l.at; i < d; i += l.step) {
            lh_load_many(mean, m.mean + h * d + i, d - i);
            for (int u = 0; u < AT_ONCE; u++) {
                load<T, WIDE>(x, entries[u] + i, d - i);
                for (int c = 0; c < N; c++) dots[u] = fmaf(x[c], mean[c], dots[u]);
            }
        }
        for (int u = 0; u < AT_ONCE; u++) {
            int64_t s = first + u * l.groups + l.group;
            float dot = lh_lanes_sum(dots[u], l.count);
            if (l.at == 0 && s < len) a.y[h * a.ld + s] = -dot * inverse_of(squares[u]);
        }
    }
}

template <typename T, int WIDE>
static lh_status compare_keys(lh_stream *stream, const lh_key_difference_args *a, const lh_directions &m)
{
    unsigned heads = (unsigned)a->kv->heads;
    int64_t d = a->kv->head_dim, step = m.lanes * lh_wide<T>(), each = THREADS / m.lanes * AT_ONCE;
    lh_shape sums = {dim3((unsigned)m.chunks, heads, (unsigned)((d + step - 1) / step)), THREADS, 0};
    lh_shape mean = {dim3(heads), MEAN_SLICES * LH_WARP, 0};
    LH_TRY(lh_launch(stream, "key_difference", sums, directions_kernel<T, WIDE>, m, *a->kv));
    LH_TRY(lh_launch(stream, "key_difference", mean, mean_direction_kernel, m, *a->kv));
    LH_TRY(lh_launch(stream, "key_difference", lh_over_slots(heads, a->ld, THREADS, each),
                     key_difference_kernel<T, WIDE>, *a, m, *a->kv));
    return LH_OK;
}

lh_status lh_cuda_key_difference(lh_stream *stream, const lh_key_difference_args *a)
{
    typedef __nv_bfloat16 bf16;
    const lh_ragged *kv = a->kv;
    float *memory = NULL;
    int wide = is_wide(kv->k, kv);
    lh_directions m = {};
    auto *compare = kv->type == LH_F32 ? (wide ? compare_keys<float, 1> : compare_keys<float, 0>)
                                       : (wide ? compare_keys<bf16, 1> : compare_keys<bf16, 0>);
    if (kv->heads == 0 || a->ld == 0) return LH_OK;
    m.chunks = (a->ld + CHUNK - 1) / CHUNK;
    m.lanes = lh_lanes_of(kv->head_dim, kv->type);
    LH_TRY(lh_stream_scratch(stream, &memory, kv->heads * kv->head_dim * (m.chunks + 1) * (int64_t)sizeof *memory));
    m.mean = memory;
    m.sums = memory + kv->heads * kv->head_dim;
    LH_TRY(compare(stream, a, m));
    return LH_OK;
}

/* ---- learnt scores ---- A warp has an entry: 32 pairs of rotated channels at a time, then the other channels. Bound
 * by reading the cache once. */

/* Sums of an entry over the channels of a lane. */
typedef struct lh_entry_sums {
    float score, keys, values;
} lh_entry_sums;

/* Channel x and its square, with their weights (lh_entry_features_args). */
static __device__ __forceinline__ void weigh_channel(float *score, float *squares, float x, const float *w, int64_t dim)
{
    *score = fmaf(x, fmaf(w[2 * dim], x, w[0]), *score);
    *squares = fmaf(x, x, *squares);
}

static __device__ __forceinline__ lh_entry_sums weigh_entry(const lh_linear_scores_args &a, const lh_ragged &kv,
                                                            int64_t h, int64_t slot)
{
    const int64_t d = kv.head_dim, half = a.rotary / 2, at = (kv.offset[h] + slot) * d;
    const int32_t *positions = lh_positions_of(&kv, h);
    const float *w = a.w + h * a.w_ld, position = (float)(positions ? positions[slot] : slot);
    lh_entry_sums sums = {};
    for (int64_t i = lh_lane(); i < half; i += LH_WARP) {
        const float low = lh_number_at(kv.k, kv.type, at + i), high = lh_number_at(kv.k, kv.type, at + half + i);
        float s, c;
        sincosf(position * a.inv_freq[i], &s, &c);
        s /= a.scale;
        c /= a.scale;
        weigh_channel(&sums.score, &sums.keys, fmaf(low, c, high * s), w + i, d);
        weigh_channel(&sums.score, &sums.keys, fmaf(high, c, -low * s), w + half + i, d);
    }
    for (int64_t i = a.rotary + lh_lane(); i < d; i += LH_WARP)
        weigh_channel(&sums.score, &sums.keys, lh_number_at(kv.k, kv.type, at + i), w + i, d);
    for (int64_t i = lh_lane(); i < d; i += LH_WARP)
        weigh_channel(&sums.score, &sums.values, lh_number_at(kv.v, kv.type, at + i), w + d + i, d);
    return lh_entry_sums{lh_warp_sum(sums.score), lh_warp_sum(sums.keys), lh_warp_sum(sums.values)};
}

static __global__ void linear_scores_kernel(lh_linear_scores_args a, lh_ragged kv)
{
    const int64_t h = blockIdx.y, len = kv.len[h], warps = THREADS / LH_WARP;
    const float *lengths = a.w + h * a.w_ld + 4 * kv.head_dim; /* their weights, and the constant */
    for (int64_t s = blockIdx.x * warps + lh_warp(); s < len; s += gridDim.x * warps) {
        const lh_entry_sums sums = weigh_entry(a, kv, h, s);
        if (lh_lane() == 0)
            a.y[h * a.ld + s] = sums.score + lengths[0] * lh_log_length(sums.keys) +
                                lengths[1] * lh_log_length(sums.values) + lengths[2];
    }
}

lh_status lh_cuda_linear_scores(lh_stream *stream, const lh_linear_scores_args *a)
{
    const lh_ragged *kv = a->kv;
    if (kv->heads == 0) return LH_OK;
    lh_shape shape = {dim3(lh_blocks_per_head(stream, kv->heads), (unsigned)kv->heads), THREADS, 0};
    return lh_launch(stream, "linear_scores", shape, linear_scores_kernel, *a, *kv);
}

/* ---- norms of projected values ---- */

/* Arguments of projected_norms, which has two kernels: in f32, and on the tensor cores. */
typedef struct lh_projected {
    lh_projected_norms_args args;
    lh_ragged kv;
} lh_projected;

/* The values of the wanted last entries of KV head h, [*count, head_dim]. */
template <typename V>
static __device__ __forceinline__ const V *projected_values(const lh_projected &p, int64_t h, int64_t *count)
{
    int64_t len = p.kv.len[h], first = lh_slot_of_last(len, p.args.last);
    *count = len - first;
    return (const V *)p.kv.v + (p.kv.offset[h] + first) * p.kv.head_dim;
}

/* Blocks of a query head, with `each` entries per block; kernels loop with a stride if there are more entries. */
static unsigned projected_blocks(const lh_stream *stream, const lh_projected_norms_args *a, int64_t each)
{
    unsigned most = (unsigned)((min(a->last, a->ld) + each - 1) / each);
    return min(most, lh_blocks_per_head(stream, a->map.heads));
}

/* ---- projected_norms of bf16 values and weights, on the tensor cores ----
 *
 * A block of 4 warps has 64 * TILES entries of a query head, a warp 16 * TILES of them, entirely in registers; it loops
 * over the columns of the head in the weights, 64 at a time, while the next ones are copied to shared memory. Absolute
 * values are added in f32 over 16 columns and in double beyond: the bits of a norm depend only on its entry and the
 * weights.
 *
 * A lane takes 16 bytes of a row, the words of two products (mma.cuh). Rows in shared memory are an odd number of 64
 * bytes from each other, so that 8 lanes served together use different banks. */

enum {
    WARPS = 4,
    MMA_THREADS = WARPS * LH_WARP,
    COLS = 64,
    COLS_AT_ONCE = 8,
    DEPTH = 32 /* numbers of a lane's 16 bytes, times 4 */
};

/* 16-byte words in a row of BLOCKS * DEPTH numbers, and from a row to the next in shared memory. */
template <int BLOCKS>
struct lh_row_words {
    enum { COUNT = BLOCKS * 4, NEXT = (BLOCKS | 1) * 4 };
};

/* A lane's words of its rows for two products. */
typedef unsigned lh_product_words[2][4];

/* The entries first + 16 m + this lane's rows; zeros after the end of a row, and for missing entries. */
template <int BLOCKS, int TILES>
static __device__ void take_entries(lh_product_words (&entries)[TILES][BLOCKS], const lh_projected &p, int64_t h,
                                    int64_t first)
{
    int64_t d = p.kv.head_dim, count;
    const __nv_bfloat16 *values = projected_values<__nv_bfloat16>(p, h, &count);
#pragma unroll
    for (int m = 0; m < TILES; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int64_t n = first + m * 16 + half * 8 + lh_lane() / 4;
            const __nv_bfloat16 *row = values + n * d;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                const int64_t at = b * DEPTH + lh_lane() % 4 * 8;
                const uint4 eight = n < count && at < d ? *(const uint4 *)(row + at) : uint4{0, 0, 0, 0};
                const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
                for (int i = 0; i < 4; i++) entries[m][b][i / 2][i % 2 * 2 + half] = words[i];
            }
        }
    }
}

/* Starts copies of columns [first, first + COLS) of query head i, with zeros after the last. */
template <int BLOCKS>
static __device__ void copy_weights(uint4 *stage, const lh_projected &p, int64_t i, int64_t first)
{
    typedef lh_row_words<BLOCKS> row;
    int64_t d = p.kv.head_dim;
    const __nv_bfloat16 *w = (const __nv_bfloat16 *)p.args.w + i * d;
    for (int n = (int)threadIdx.x; n < COLS * row::COUNT; n += MMA_THREADS) {
        int col = n / row::COUNT, word = n % row::COUNT;
        int there = first + col < p.args.out && word * 8 < d;
        lh_copy_async(stage + col * row::NEXT + word, there ? w + (first + col) * p.args.w_ld + word * 8 : w,
                      there ? 16 : 0);
    }
    lh_copy_commit();
}

/* norms[m][half] += the absolute values of the products with the `count` columns in `stage`. */
template <int BLOCKS, int TILES>
static __device__ __forceinline__ void add_sizes(double (&norms)[TILES][2],
                                                 const lh_product_words (&entries)[TILES][BLOCKS], const uint4 *stage,
                                                 int64_t count)
{
    float sizes[TILES][2] = {};
    const uint4 *column = stage + lh_lane() / 4 * lh_row_words<BLOCKS>::NEXT + lh_lane() % 4;
#pragma unroll 2
    for (int n = 0; n < COLS; n += COLS_AT_ONCE, column += COLS_AT_ONCE * lh_row_words<BLOCKS>::NEXT) {
        float sums[TILES][4] = {};
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint4 w = column[b * 4];
            const unsigned low[2] = {w.x, w.y}, high[2] = {w.z, w.w};
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                lh_mma(sums[m], entries[m][b][0], low);
                lh_mma(sums[m], entries[m][b][1], high);
            }
        }
        int col = n + lh_lane() % 4 * 2;
#pragma unroll
        for (int c = 0; c < TILES * 4; c++)
            sizes[c / 4][c / 2 % 2] += col + c % 2 < count ? fabsf(sums[c / 4][c % 4]) : 0.0f;
    }
#pragma unroll
    for (int m = 0; m < TILES * 2; m++) norms[m / 2][m % 2] += sizes[m / 2][m % 2];
}

template <int TILES>
static __device__ void put_norms(double (&norms)[TILES][2], float *y, int64_t first, int64_t count)
{
#pragma unroll
    for (int m = 0; m < TILES * 2; m++) {
        double norm = norms[m / 2][m % 2];
        norm += __shfl_xor_sync(LH_ALL, norm, 1);
        norm += __shfl_xor_sync(LH_ALL, norm, 2);
        int64_t n = first + m * 8 + lh_lane() / 4;
        if (lh_lane() % 4 == 0 && n < count) y[n] = (float)norm;
    }
}

template <int BLOCKS, int TILES>
static __global__ void __launch_bounds__(MMA_THREADS) project_kernel(lh_projected p)
{
    const int stage_words = COLS * lh_row_words<BLOCKS>::NEXT;
    uint4 *stages = (uint4 *)lh_shared();
    int64_t i = blockIdx.y, h = (p.args.map.first + i) / p.args.map.group;
    int64_t count = min(p.kv.len[h], p.args.last), each = 16 * TILES, out = p.args.out;
    for (int64_t first = blockIdx.x * each * WARPS; first < count; first += gridDim.x * each * WARPS) {
        lh_product_words entries[TILES][BLOCKS];
        double norms[TILES][2] = {};
        int turn = 0;
        copy_weights<BLOCKS>(stages, p, i, 0);
        take_entries(entries, p, h, first + lh_warp() * each);
        for (int64_t col = 0; col < out; col += COLS, turn = !turn) {
            copy_weights<BLOCKS>(stages + !turn * stage_words, p, i, col + COLS);
            lh_copy_wait<1>();
            __syncthreads();
            add_sizes(norms, entries, stages + turn * stage_words, out - col);
            __syncthreads();
        }
        lh_copy_wait<0>();
        put_norms(norms, p.args.y + i * p.args.ld, first + lh_warp() * each, count);
    }
}

/* Returns 1 for values and weights of bf16 in rows that are read 16 bytes at a time, with head_dim up to 256. The
 * choice follows from the types and head_dim if rows are aligned as in a model. */
static int projects_on_tensor_cores(const lh_projected_norms_args *a)
{
    int64_t d = a->kv->head_dim;
    uintptr_t at = (uintptr_t)a->kv->v | (uintptr_t)a->w;
    return a->kv->type == LH_BF16 && a->type == LH_BF16 && d <= 256 && d % 8 == 0 && a->w_ld % 8 == 0 && at % 16 == 0;
}

template <int BLOCKS, int TILES>
static lh_status project_by(lh_stream *stream, const lh_projected *p)
{
    unsigned blocks = projected_blocks(stream, &p->args, 16 * TILES * WARPS);
    int64_t shared = 2 * COLS * lh_row_words<BLOCKS>::NEXT * (int64_t)sizeof(uint4);
    lh_shape shape = {dim3(blocks, (unsigned)p->args.map.heads), MMA_THREADS, shared};
    return lh_launch(stream, "projected_norms", shape, project_kernel<BLOCKS, TILES>, *p);
}

static lh_status project_on_tensor_cores(lh_stream *stream, const lh_projected *p)
{
    int64_t d = p->kv.head_dim;
    if (d <= 64) return project_by<2, 2>(stream, p);
    if (d <= 96) return project_by<3, 2>(stream, p);
    if (d <= 128) return project_by<4, 2>(stream, p);
    return project_by<8, 1>(stream, p);
}

/* ---- projected_norms in f32: a matrix product that keeps only the sums of absolute values ----
 *
 * A block has 64 entries of a query head, and takes the columns in order (product.cuh). A thread adds its part of an
 * entry in double, 8 columns at a time. Bound by arithmetic. */

template <typename V, typename W>
static __device__ void project(double (&norms)[8], const lh_factors<V, W> &f, lh_product_room *room)
{
    for (int i = 0; i < 8; i++) norms[i] = 0.0;
    for (int64_t first = 0; first < f.count; first += PRODUCT_COLS) {
        float sums[8][8];
        lh_product_tile(sums, f, first, room);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float norm = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; j++) norm += first + lh_product_col(j) < f.count ? fabsf(sums[i][j]) : 0.0f;
            norms[i] += norm;
        }
    }
    for (int i = 0; i < 8; i++) norms[i] = lh_product_across(norms[i]);
}

template <typename V, typename W>
static __global__ void __launch_bounds__(PRODUCT_THREADS) projected_norms_kernel(lh_projected p)
{
    __shared__ lh_product_room room;
    int64_t i = blockIdx.y, d = p.kv.head_dim, count;
    const V *values = projected_values<V>(p, (p.args.map.first + i) / p.args.map.group, &count);
    for (int64_t first = (int64_t)blockIdx.x * PRODUCT_ROWS; first < count;
         first += (int64_t)gridDim.x * PRODUCT_ROWS) {
        int64_t mine = first + threadIdx.x % PRODUCT_ROWS;
        lh_factors<V, W> f = {NULL, (const W *)p.args.w + i * d, p.args.out, p.args.w_ld, d};
        double norms[8];
        if (mine < count) f.row = values + mine * d;
        project(norms, f, &room);
        for (int n = 0; n < 8; n++) {
            int64_t at = first + lh_product_row(n);
            if (threadIdx.x % 16 == 0 && at < count) p.args.y[i * p.args.ld + at] = (float)norms[n];
        }
    }
}

static lh_status project_in_f32(lh_stream *stream, const lh_projected *p)
{
    typedef __nv_bfloat16 bf16;
    lh_shape shape = {dim3(projected_blocks(stream, &p->args, PRODUCT_ROWS), (unsigned)p->args.map.heads),
                      PRODUCT_THREADS, 0};
    lh_dtype type = p->args.type;
    auto *kernel = p->kv.type == LH_F32
                       ? (type == LH_F32 ? projected_norms_kernel<float, float> : projected_norms_kernel<float, bf16>)
                       : (type == LH_F32 ? projected_norms_kernel<bf16, float> : projected_norms_kernel<bf16, bf16>);
    return lh_launch(stream, "projected_norms", shape, kernel, *p);
}

lh_status lh_cuda_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    lh_projected p = {*a, *a->kv};
    if (a->map.heads == 0 || a->last == 0 || a->ld == 0) return LH_OK;
    return projects_on_tensor_cores(a) ? project_on_tensor_cores(stream, &p) : project_in_f32(stream, &p);
}
