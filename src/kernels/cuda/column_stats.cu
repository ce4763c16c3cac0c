/* column_stats: the attention that entries receive from query rows.
 *
 * A warp has 16 or 32 entries (columns) of a KV head with their keys in registers; it loops over all rows, 8 rows of
 * one query head at a time, so that one lane gets the weights of all heads of the group for a row and entry: it squares
 * and counts their mean, in the order of the rows, and writes the sums once. Keys are read once, all loads of a warp
 * under way together; queries come from the caches, packed before (as bf16 or as parts of f32) in the order in which
 * the lanes of a warp load them. */
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/softmax.cuh"

enum { COLUMN_WARPS = 4, COLUMN_TOKENS = 8, COLUMN_SLAB = 2048 /* rows of a launch: bounds the packed queries */ };
#define COLUMN_THREADS (COLUMN_WARPS * LH_WARP)

template <typename T_, int D_>
struct column_kind {
    typedef T_ T;
    enum {
        D = D_,
        PARTS = lh_parts<T_>::COUNT,
        CHUNKS = D_ / 32,                             /* of a row */
        TILES = sizeof(T_) == 2 && D_ <= 128 ? 2 : 1, /* tiles of 16 entries of a warp */
        COLUMNS = COLUMN_WARPS * 16 * TILES,          /* columns of a block */
        BLOCKS = sizeof(T_) == 2 ? 3 : 2              /* of a multiprocessor, as far as registers allow */
    };
};

/* Arguments of all blocks. padded: rows of a slab, rounded up to whole tiles of COLUMN_TOKENS. */
typedef struct column_job {
    lh_slot_floats sums, squares, largest, counts;
    lh_ragged kv;
    lh_observed rows; /* its kv is not used */
    const float *lse;
    int64_t lse_ld, first, cols, padded;
    int64_t first_head, heads; /* KV heads */
    int64_t averaged;          /* query heads per mean: the group, or 1 for separate sums */
    int64_t parts;
    int each_head;
    lh_form form;
    uint4 *packed; /* [query heads, padded / COLUMN_TOKENS, chunks, parts, lanes] bf16, times the factor of logits */
    lh_visible_range *visible; /* [padded]; rows after the last one see nothing */
    float2 *factors;           /* [query heads, padded] weight = 2 ^ (x * logit + y) */
    float *fair;               /* [KV heads, padded] sums of weights above it are counted */
} column_job;

/* ---- preparation ---- */

/* The visible range of row r; rows after the last one see nothing. */
static __device__ __forceinline__ lh_visible_range visible_range_of(const column_job &a, int64_t r)
{
    const lh_observed &o = a.rows;
    return r < o.rows ? lh_visible_range_of(o.positions, o.until, o.logit.window, r) : lh_visible_range{INT32_MAX, -1};
}

/* A row that sees nothing has -inf, and weights of 0. */
static __device__ __forceinline__ float shift_of(float lse)
{
    return lse == -INFINITY ? -INFINITY : -lse * LH_LOG2E;
}

/* The factors that turn logits of row r and query head i into weights. */
static __device__ __forceinline__ float2 factors_of(const column_job &a, int64_t r, int64_t i)
{
    int there = r < a.rows.rows;
    float cap = a.rows.logit.softcap > 0 ? a.rows.logit.softcap : 1.0f,
          gain = there && a.rows.gains ? a.rows.gains[r] : 1.0f;
    return make_float2(gain * cap * LH_LOG2E, there ? shift_of(a.lse[r * a.lse_ld + i]) : 0.0f);
}

/* A chunk of a tile of rows: lane 4 g + t loads numbers 8 t to 8 t + 7 of row g. */
template <typename K>
static __device__ __forceinline__ uint4 *packed_at(const column_job &a, int64_t i, int64_t tile, int64_t chunk,
                                                   int part)
{
    return a.packed + (((i * (a.padded / COLUMN_TOKENS) + tile) * K::CHUNKS + chunk) * K::PARTS + part) * LH_WARP;
}

/* One warp for each row of each query head: packs the row, and computes its factors and, once for all heads, its
 * visible range. */
template <typename K>
static __global__ void pack_kernel(const __grid_constant__ column_job a)
{
    int64_t warps = (int64_t)gridDim.x * (blockDim.x / LH_WARP), heads = a.rows.map.heads;
    float cap = a.rows.logit.softcap, factor = cap > 0 ? a.rows.logit.scale / cap : a.rows.logit.scale;
    for (int64_t n = lh_grid_first() / LH_WARP; n < a.padded * heads; n += warps) {
        int64_t r = (unsigned)n / (unsigned)heads, i = (unsigned)n % (unsigned)heads;
        const float *q = a.rows.q + r * a.rows.q_ld + i * a.form.dim;
        if (lh_lane() == 0) {
            a.factors[i * a.padded + r] = factors_of(a, r, i);
            if (i == 0) a.visible[r] = visible_range_of(a, r);
        }
        for (int x = 2 * lh_lane(); x < K::D; x += 2 * LH_WARP) {
            unsigned word[K::PARTS];
            float pair[2] = {0, 0};
            if (r < a.rows.rows && x < a.form.dim) pair[0] = q[x] * factor;
            if (r < a.rows.rows && x + 1 < a.form.dim) pair[1] = q[x + 1] * factor;
            lh_cut_pair<K::PARTS>(word, pair[0], pair[1]);
            for (int part = 0; part < K::PARTS; part++)
                ((unsigned *)(packed_at<K>(a, i, r / COLUMN_TOKENS, x / 32, part) + r % COLUMN_TOKENS * 4 +
                              x % 32 / 8))[x % 8 / 2] = word[part];
        }
    }
}

enum { FAIR_ROWS = 8, FAIR_THREADS = 512 };

/* Counts the visible entries of rows if positions are stored; a block for FAIR_ROWS rows of a KV head. A row that sees
 * a single entry gives it 1, which must not count as above 1 / 1 by rounding. */
static __global__ void __launch_bounds__(FAIR_THREADS) fair_kernel(const __grid_constant__ column_job a)
{
    __shared__ int seen[FAIR_ROWS];
    int64_t n = blockIdx.y, head = a.first_head + n, r0 = (int64_t)blockIdx.x * FAIR_ROWS, len = a.kv.len[head];
    const int32_t *positions = a.kv.positions ? a.kv.positions + a.kv.offset[head] : NULL;
    lh_visible_range visible[FAIR_ROWS];
    int count[FAIR_ROWS] = {};
    if (threadIdx.x < FAIR_ROWS) seen[threadIdx.x] = 0;
#pragma unroll
    for (int i = 0; i < FAIR_ROWS; i++) visible[i] = visible_range_of(a, r0 + i);
    for (int64_t j = threadIdx.x; j < len && positions; j += FAIR_THREADS) {
        int at = positions[j];
#pragma unroll
        for (int i = 0; i < FAIR_ROWS; i++) count[i] += lh_sees(visible[i], at);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < FAIR_ROWS; i++) {
        int of_warp = lh_warp_sum(count[i]);
        if (lh_lane() == 0) atomicAdd(&seen[i], of_warp);
    }
    __syncthreads();
    if (threadIdx.x < FAIR_ROWS) {
        lh_visible_range visible = visible_range_of(a, r0 + threadIdx.x);
        int64_t last = visible.last < len - 1 ? visible.last : len - 1,
                all = positions ? seen[threadIdx.x] : last - visible.before;
        a.fair[n * a.padded + r0 + threadIdx.x] = all > 1 ? (float)a.averaged / (float)all : INFINITY;
    }
}

/* ---- the columns ---- */

/* The entries of a warp: lane 4 g + t has entries g and 8 + g of each tile. */
template <typename K>
struct column_entries {
    lh_eight<typename K::T> keys[K::TILES][K::CHUNKS][2];
    int at[K::TILES][2];     /* positions; -1: no entry */
    float bias[K::TILES][2]; /* as powers of 2 */
    int low, high;           /* bounds of the positions of the warp's entries */
};

/* Sums over the lane's rows. */
template <typename K>
struct column_sums {
    float sum[K::TILES][2], squares[K::TILES][2], largest[K::TILES][2], count[K::TILES][2];
};

/* The entries from `slot` on, without their keys. */
template <typename K>
static __device__ __forceinline__ void find_entries(const column_job &a, column_entries<K> *e, int64_t head,
                                                    int64_t slot)
{
    int64_t len = a.kv.len[head], end = a.first + a.cols < len ? a.first + a.cols : len, offset = a.kv.offset[head];
    int low = INT32_MAX;
    e->high = -1;
#pragma unroll
    for (int n = 0; n < 2 * K::TILES; n++) {
        int64_t s = slot + 8 * n + lh_lane() / 4;
        int at = s >= end ? -1 : a.kv.positions ? a.kv.positions[offset + s] : (int)s;
        e->at[n / 2][n % 2] = at;
        e->bias[n / 2][n % 2] = at >= 0 && a.kv.bias ? a.kv.bias[offset + s] * LH_LOG2E : 0.0f;
        e->high = at > e->high ? at : e->high;
        low = at >= 0 && at < low ? at : low;
    }
    e->high = lh_warp_max(e->high);
    e->low = -lh_warp_max(-low);
}

/* Loads the keys of a warp that has entries. Wide rows have no branches between the loads, so that all are under way
 * together: lanes without an entry or a number load numbers of the first entry, and drop them. */
template <typename K>
static __device__ __forceinline__ void load_keys(const column_job &a, column_entries<K> *e, int64_t head, int64_t slot)
{
    const typename K::T *first = (const typename K::T *)a.kv.k + (a.kv.offset[head] + slot) * a.form.dim;
    const int from = 8 * (lh_lane() % 4);
#pragma unroll
    for (int n = 0; n < 2 * K::TILES && !a.form.wide; n++)
#pragma unroll
        for (int c = 0; c < K::CHUNKS; c++)
            lh_load(&e->keys[n / 2][c][n % 2], first + (8 * n + lh_lane() / 4) * a.form.dim + 32 * c + from,
                    e->at[n / 2][n % 2] >= 0 ? a.form.dim - 32 * c - from : 0, 0);
    if (!a.form.wide) return;
#pragma unroll
    for (int n = 0; n < 2 * K::TILES; n++)
#pragma unroll
        for (int c = 0; c < K::CHUNKS; c++)
            lh_take(&e->keys[n / 2][c][n % 2], e->at[n / 2][n % 2] >= 0 && 32 * c + from < a.form.dim
                                                   ? first + (8 * n + lh_lane() / 4) * a.form.dim + 32 * c + from
                                                   : first);
#pragma unroll
    for (int n = 0; n < 2 * K::TILES; n++)
#pragma unroll
        for (int c = 0; c < K::CHUNKS; c++)
            if (e->at[n / 2][n % 2] < 0 || 32 * c + from >= a.form.dim) lh_zero(&e->keys[n / 2][c][n % 2]);
}

/* all += the weights of the entries for rows 8 T + 2 t and 8 T + 2 t + 1 (i = 0, 1; entry g, then 8 + g) of a query
 * head. */
template <typename K>
static __device__ __forceinline__ void add_head(const column_job &a, const column_entries<K> &e, float all[K::TILES][4],
                                                int64_t i, int64_t tile)
{
    const uint4 *q = packed_at<K>(a, i, tile, 0, 0) + lh_lane();
    const float4 factors = *(const float4 *)(a.factors + i * a.padded + tile * COLUMN_TOKENS + 2 * (lh_lane() % 4));
    float s[K::TILES][4] = {}, rest[K::TILES][4] = {};
#pragma unroll
    for (int c = 0; c < K::CHUNKS; c++) {
        uint4 words[K::PARTS];
#pragma unroll
        for (int part = 0; part < K::PARTS; part++) words[part] = q[(c * K::PARTS + part) * LH_WARP];
#pragma unroll
        for (int n = 0; n < 2 * K::TILES; n++) {
            unsigned x[K::PARTS][4], y[K::PARTS][2], word[K::PARTS];
#pragma unroll
            for (int w = 0; w < 4; w++) {
                lh_cut_along(word, e.keys[n / 2][c][w % 2], n % 2 * 2 + w / 2);
#pragma unroll
                for (int part = 0; part < K::PARTS; part++) x[part][w] = word[part];
            }
#pragma unroll
            for (int part = 0; part < K::PARTS; part++) {
                y[part][0] = lh_of(words[part], n % 2 * 2);
                y[part][1] = lh_of(words[part], n % 2 * 2 + 1);
            }
            if (K::PARTS == 1 && n % 2) /* two sums, each half as long a chain of products */
                lh_mma(rest[n / 2], x[0], y[0]);
            else
                lh_mma_parts<K::PARTS, K::PARTS>(s[n / 2], rest[n / 2], x, y);
        }
    }
    lh_add_all<4 * K::TILES>(&s[0][0], &rest[0][0]);
    if (a.rows.logit.softcap > 0) {
#pragma unroll
        for (int n = 0; n < 4 * K::TILES; n++) s[n / 4][n % 4] = tanhf(s[n / 4][n % 4]);
    }
#pragma unroll
    for (int n = 0; n < 4 * K::TILES; n++) {
        float x = s[n / 4][n % 4], bias = e.bias[n / 4][n % 4 / 2];
        all[n / 4][n % 4] +=
            lh_exp2(n % 2 ? fmaf(x, factors.z, factors.w + bias) : fmaf(x, factors.x, factors.y + bias));
    }
}

/* A tile of rows, of all heads that are averaged together, or head by head if squares and maxima are per head. */
template <typename K>
static __device__ __forceinline__ void add_rows(const column_job &a, const column_entries<K> &e, column_sums<K> *to,
                                                int64_t n, int64_t tile)
{
    int64_t r = tile * COLUMN_TOKENS + 2 * (lh_lane() % 4), i0 = n * a.averaged;
    lh_visible_range visible[2] = {a.visible[r], a.visible[r + 1]};
    float all[K::TILES][4] = {}, fair[2] = {INFINITY, INFINITY};
    int none = 1, whole = 1;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        none &= visible[i].last < e.low || visible[i].before >= e.high;
        whole &= visible[i].last >= e.high && visible[i].before < e.low;
    }
    if (__all_sync(LH_ALL, none)) return;
    whole = __all_sync(LH_ALL, whole);
    if (a.counts.at) fair[0] = a.fair[n * a.padded + r], fair[1] = a.fair[n * a.padded + r + 1];
    for (int64_t c = 0; c < a.averaged; c++) {
        add_head<K>(a, e, all, i0 + c, tile);
        if (!a.each_head && c + 1 < a.averaged) continue;
#pragma unroll
        for (int x = 0; x < 4 * K::TILES; x++) {
            int m = x / 4, entry = x % 4 / 2, i = x % 2;
            float weight = whole || lh_sees(visible[i], e.at[m][entry]) ? all[m][x % 4] : 0.0f;
            all[m][x % 4] = 0.0f;
            to->sum[m][entry] += weight;
            to->squares[m][entry] = fmaf(weight, weight, to->squares[m][entry]);
            to->largest[m][entry] = fmaxf(weight, to->largest[m][entry]);
            to->count[m][entry] += weight > fair[i] ? 1.0f : 0.0f;
        }
    }
}

/* Sum over the four lanes that share an entry. */
static __device__ __forceinline__ float of_four(float x)
{
    x += __shfl_xor_sync(LH_ALL, x, 1);
    return x + __shfl_xor_sync(LH_ALL, x, 2);
}

static __device__ __forceinline__ float largest_of_four(float x)
{
    x = fmaxf(x, __shfl_xor_sync(LH_ALL, x, 1));
    return fmaxf(x, __shfl_xor_sync(LH_ALL, x, 2));
}

static __device__ __forceinline__ void lift(const lh_slot_floats &y, int64_t head, int64_t slot, float x)
{
    *lh_slot_at(&y, head, slot, 0) = fmaxf(*lh_slot_at(&y, head, slot, 0), x);
}

static __device__ __forceinline__ void give(const lh_slot_floats &y, int64_t head, int64_t slot, int64_t c, float x)
{
    *lh_slot_at(&y, head, slot, c) += x;
}

/* blockIdx.x: entries; y: KV heads, or query heads for separate sums. */
template <typename K>
static __global__ void __launch_bounds__(COLUMN_THREADS, K::BLOCKS) columns_kernel(const __grid_constant__ column_job a)
{
    int64_t n = blockIdx.y, i0 = a.first_head * a.rows.map.group + n * a.averaged, head = i0 / a.rows.map.group;
    int64_t slot = a.first + ((int64_t)blockIdx.x * COLUMN_WARPS + lh_warp()) * 16 * K::TILES;
    float share = 1.0f / (float)a.averaged, own = a.each_head ? 1.0f : share;
    column_entries<K> e;
    column_sums<K> sums = {};
    find_entries<K>(a, &e, head, slot);
    if (e.high < 0) return; /* the whole warp has no entries */
    load_keys<K>(a, &e, head, slot);
    for (int64_t tile = 0; tile < a.padded / COLUMN_TOKENS; tile++) add_rows<K>(a, e, &sums, n, tile);
#pragma unroll
    for (int x = 0; x < 2 * K::TILES; x++) {
        int64_t s = slot + 8 * x + lh_lane() / 4, c = i0 % a.rows.map.group;
        float sum = of_four(sums.sum[x / 2][x % 2]), squares = of_four(sums.squares[x / 2][x % 2]),
              largest = largest_of_four(sums.largest[x / 2][x % 2]), count = of_four(sums.count[x / 2][x % 2]);
        if (lh_lane() % 4 || e.at[x / 2][x % 2] < 0) continue;
        if (a.sums.at) give(a.sums, head, s, c, share * sum);
        if (a.squares.at) give(a.squares, head, s, 0, own * own * squares);
        if (a.largest.at) lift(a.largest, head, s, own * largest);
        if (a.counts.at) give(a.counts, head, s, 0, count);
    }
}

/* ---- a single row with known logits ---- */

enum { NORMAL_THREADS = 512 };

typedef struct given_row {
    lh_observed rows;
    lh_ragged kv;
    float *lse; /* [heads] */
} given_row;

/* The normalisers of the row: a block for each head. */
static __global__ void __launch_bounds__(NORMAL_THREADS) normalise_kernel(const __grid_constant__ given_row a)
{
    __shared__ float room[LH_WARP];
    const lh_observed &o = a.rows;
    int64_t i = blockIdx.x, head = (o.map.first + i) / o.map.group, len = a.kv.len[head];
    const int32_t *positions = a.kv.positions ? a.kv.positions + a.kv.offset[head] : NULL;
    const float *s = o.logits.at + i * o.logits.ld, *biases = lh_bias_of(&a.kv, head);
    lh_visible_range visible = lh_visible_range_of(o.positions, o.until, o.logit.window, 0);
    float gain = o.gains ? o.gains[0] : 1.0f, row_max = -INFINITY, denominator = 0.0f;
    for (int64_t j = threadIdx.x; j < len; j += NORMAL_THREADS)
        if (lh_sees(visible, positions ? positions[j] : (int)j))
            row_max = fmaxf(row_max, fmaf(gain, s[j], biases ? biases[j] : 0.0f));
    row_max = lh_block_max(row_max, room);
    for (int64_t j = threadIdx.x; j < len; j += NORMAL_THREADS)
        if (lh_sees(visible, positions ? positions[j] : (int)j))
            denominator += lh_weight(fmaf(gain, s[j], biases ? biases[j] : 0.0f), lh_shift(row_max));
    denominator = lh_block_sum(denominator, room);
    if (threadIdx.x == 0) a.lse[i] = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
}

static __global__ void given_kernel(const __grid_constant__ column_job a)
{
    int64_t n = blockIdx.y, head = a.first_head + n, len = a.kv.len[head], offset = a.kv.offset[head];
    int64_t end = a.first + a.cols < len ? a.first + a.cols : len, i0 = head * a.rows.map.group - a.rows.map.first;
    float share = 1.0f / (float)a.averaged, gain = a.rows.gains ? a.rows.gains[0] : 1.0f;
    const float *biases = lh_bias_of(&a.kv, head);
    lh_visible_range visible = visible_range_of(a, 0);
    for (int64_t s = a.first + lh_grid_first(); s < end; s += lh_grid_step()) {
        float all = 0.0f, squares = 0.0f, largest = 0.0f, bias = biases ? biases[s] * LH_LOG2E : 0.0f;
        if (!lh_sees(visible, a.kv.positions ? a.kv.positions[offset + s] : (int)s)) continue;
        for (int64_t i = 0; i < a.rows.map.group; i++) {
            float y = shift_of(a.lse[i0 + i]) + bias;
            float weight = lh_exp2(fmaf(a.rows.logits.at[(i0 + i) * a.rows.logits.ld + s], gain * LH_LOG2E, y));
            if (a.sums.at && a.parts > 1) give(a.sums, head, s, i, weight);
            all += weight;
            squares = fmaf(weight, weight, squares);
            largest = fmaxf(weight, largest);
        }
        if (a.sums.at && a.parts == 1) give(a.sums, head, s, 0, share * all);
        if (a.squares.at) give(a.squares, head, s, 0, a.each_head ? squares : share * share * all * all);
        if (a.largest.at) lift(a.largest, head, s, a.each_head ? largest : share * all);
        if (a.counts.at) give(a.counts, head, s, 0, all > a.fair[n * a.padded] ? 1.0f : 0.0f);
    }
}

/* ---- the operation ---- */

typedef void (*column_function)(column_job);
typedef struct column_way {
    column_function pack, columns;
    int64_t room, columns_of_block, parts;
} column_way;

template <typename T, int D>
static column_way way_for(void)
{
    typedef column_kind<T, D> K;
    return column_way{pack_kernel<K>, columns_kernel<K>, K::D, K::COLUMNS, K::PARTS};
}

template <typename T>
static column_way way_of(int64_t dim)
{
    if (dim <= 64) return way_for<T, 64>();
    return dim <= 128 ? way_for<T, 128>() : way_for<T, 256>();
}

/* Allocates memory to prepare `rows` rows. */
static lh_status open_job(lh_stream *stream, column_job *a, const column_way *way, int64_t rows)
{
    int64_t heads = a->rows.map.heads, padded = (rows + COLUMN_TOKENS - 1) / COLUMN_TOKENS * COLUMN_TOKENS;
    int64_t packed = a->rows.logits.at ? 0 : heads * way->parts * padded * way->room * 2;
    char *memory = NULL;
    LH_TRY(lh_stream_scratch(stream, &memory, packed + padded * (heads * 8 + a->heads * 4 + 8)));
    a->packed = (uint4 *)memory;
    a->factors = (float2 *)(memory + packed);
    a->visible = (lh_visible_range *)(a->factors + heads * padded);
    a->fair = (float *)(a->visible + padded);
    return LH_OK;
}

static lh_status launch_columns(lh_stream *stream, const column_job *a, const column_way *way)
{
    int64_t blocks = (a->cols + way->columns_of_block - 1) / way->columns_of_block;
    dim3 grid((unsigned)blocks, (unsigned)(a->rows.map.heads / a->averaged));
    return lh_launch(stream, "column_stats", lh_shape{grid, COLUMN_THREADS, 0}, way->columns, *a);
}

/* Sums of each query head are a separate launch from statistics of means. */
static lh_status add_columns(lh_stream *stream, const column_job *job, const column_way *way)
{
    column_job a = *job;
    if (a.sums.at && a.parts > 1) {
        a.averaged = 1;
        a.squares.at = a.largest.at = a.counts.at = NULL;
        LH_TRY(launch_columns(stream, &a, way));
        a = *job;
        a.sums.at = NULL;
    }
    if (a.sums.at || a.squares.at || a.largest.at || a.counts.at) LH_TRY(launch_columns(stream, &a, way));
    return LH_OK;
}

/* Adds the rows of a slab, which are in a->rows. */
static lh_status add_slab(lh_stream *stream, column_job *a, const column_way *way)
{
    a->padded = (a->rows.rows + COLUMN_TOKENS - 1) / COLUMN_TOKENS * COLUMN_TOKENS;
    if (a->counts.at) {
        dim3 grid((unsigned)(a->padded / FAIR_ROWS), (unsigned)a->heads);
        LH_TRY(lh_launch(stream, "column_stats", lh_shape{grid, FAIR_THREADS, 0}, fair_kernel, *a));
    }
    if (a->rows.logits.at) {
        dim3 grid(lh_blocks(a->cols, COLUMN_THREADS), (unsigned)a->heads);
        LH_TRY(lh_launch(stream, "column_stats", lh_shape{grid, COLUMN_THREADS, 0}, given_kernel, *a));
    } else {
        dim3 grid(lh_blocks(a->padded * a->rows.map.heads, COLUMN_WARPS));
        LH_TRY(lh_launch(stream, "column_stats", lh_shape{grid, COLUMN_THREADS, 0}, way->pack, *a));
        LH_TRY(add_columns(stream, a, way));
    }
    return LH_OK;
}

/* The log-sum-exps of a single row. */
static lh_status normalise(lh_stream *stream, const lh_observed *o, float *lse)
{
    lh_row_lse_args all = {lse, *o};
    if (!o->logits.at) return lh_cuda_row_lse(stream, &all);
    return lh_launch(stream, "column_stats", lh_shape{dim3((unsigned)o->map.heads), NORMAL_THREADS, 0},
                     normalise_kernel, given_row{*o, *o->kv, lse});
}

lh_status lh_cuda_column_stats(lh_stream *stream, const lh_column_stats_args *args)
{
    const lh_observed *o = &args->rows;
    int64_t rows = o->rows, group = o->map.group;
    column_way way;
    column_job a = {};
    if (o->map.heads == 0 || rows == 0 || args->cols == 0) return LH_OK;
    a.kv = *o->kv;
    a.form = lh_form_of(o->kv);
    if (a.form.dim > 256)
        LH_FAIL(LH_EINTERNAL, "column_stats on a GPU: heads of %d dimensions, more than 256", a.form.dim);
    way = o->kv->type == LH_F32 ? way_of<float>(a.form.dim) : way_of<__nv_bfloat16>(a.form.dim);
    a.sums = args->sums;
    a.squares = args->squares;
    a.largest = args->largest;
    a.counts = args->counts;
    a.rows = *o;
    a.lse_ld = args->lse_ld;
    if (!args->lse) LH_TRY(normalise(stream, o, args->own));
    a.first = args->first;
    a.cols = args->cols;
    a.parts = args->parts;
    a.each_head = args->each_head;
    a.averaged = group;
    a.first_head = o->map.first / group;
    a.heads = o->map.heads / group;
    LH_TRY(open_job(stream, &a, &way, rows < COLUMN_SLAB ? rows : +COLUMN_SLAB));
    for (int64_t r = 0; r < rows; r += COLUMN_SLAB) {
        a.rows.rows = rows - r < COLUMN_SLAB ? rows - r : +COLUMN_SLAB;
        a.rows.q = o->q + r * o->q_ld;
        a.rows.positions = o->positions + r;
        a.rows.until = o->until ? o->until + r : NULL;
        a.rows.gains = o->gains ? o->gains + r : NULL;
        a.lse = args->lse ? args->lse + r * args->lse_ld : args->own;
        LH_TRY(add_slab(stream, &a, &way));
    }
    return LH_OK;
}
