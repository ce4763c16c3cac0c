/* Norms of keys and values, and KeyDiff. Lanes that are neighbours share a vector, 16 bytes each, and have AT_ONCE
 * vectors under way; bound by reading the cache once (entry_norms) or twice (key_difference, whose mean must be known
 * before the cosines are). */
#include "kernels/cuda/entries.cuh"

enum {
    THREADS = 256,
    AT_ONCE = 4,
    CHUNK = 256, /* entries whose directions are added up together */
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

/* sums[u] = the squares of vector entries[u], of this lane; the first numbers of every vector are loaded before any is
 * used. */
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

/* Entries first + group, + groups, … of head h; after the end the last one. */
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

/* 1 if all vectors of an arena can be read 16 bytes at a time. */
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

/* One over the norm, which is 1e-8 at least. */
static __device__ __forceinline__ float inverse_of(float squares)
{
    return 1.0f / fmaxf(sqrtf(squares), 1e-8f);
}

/* A block has a chunk of entries; with blockIdx.z the columns that its lanes reach at once. Groups take entries in
 * turns, and what they have is added in their order. */
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
