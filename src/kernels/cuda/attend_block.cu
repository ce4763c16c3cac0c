/* attend_block: softmax attention of a block of rows over ragged caches, tile by tile (FlashAttention-2, arXiv
 * 2307.08691). A block of threads has 128 rows (64 if registers are short or rows are few): tokens times the query
 * heads that share a KV head, so keys and values are read once for all of them. A warp has 32 of the rows, with their
 * sums in registers; all warps process a tile of 64 entries (or fewer) together, while the next tile is copied to
 * shared memory. Over a bf16 or q8 cache queries and weights are rounded to bf16, and codes of q8 become
 * bf16 in registers; over an f32 cache all numbers are in three bf16 parts. If there are too few blocks for the device,
 * the entries of a head are split over several blocks. */
#include "kernels/cuda/attend_block.cuh"
#include "kernels/cuda/q8.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/vector.cuh"

/* ---- tiles of keys and values in shared memory ----
 *
 * Rows are cut in pieces of 16 bytes, in an order that depends on the row, so that lanes that read together use
 * different banks. The next tile is copied while the current one is processed. */

template <typename T_, int D_, int WARPS_, int TILES_, int KEYS_>
struct attend_kind {
    typedef T_ T;
    enum {
        D = D_,             /* dimensions, padded */
        BYTES = sizeof(T_), /* bytes of a number */
        IS_Q8 = BYTES == 1,
        PIECES = D_ * (int)sizeof(T_) / 16, /* of a row */
        PARTS = lh_parts<T_>::COUNT,        /* parts of queries and weights, too: over bf16 they are rounded */
        WARPS = WARPS_,
        THREADS = WARPS_ * LH_WARP,
        TILES = TILES_, /* tiles of 16 rows of a warp */
        ROWS = 16 * TILES_ * WARPS_,
        STEPS = D_ / 16, /* products along the dimensions */
        KEYS = KEYS_,    /* entries of a tile: 64, 32 or 16 */
        QUERY_BYTES = PARTS * ROWS * D_ * 2,
        TILE_BYTES = KEYS_ * D_ * (int)sizeof(T_),
        SHARED = QUERY_BYTES + 4 * TILE_BYTES /* two tiles of keys, two of values */
    };
    static_assert(LH_SHARED_BLOCK % KEYS_ == 0, "a tile lies in one segment");
};

/* The swizzle of the eight neighbouring pieces of a row (four of q8 with 64 dimensions): the index of a piece is xored
 * with it. */
template <typename K>
static __device__ __forceinline__ int key_turn(int row)
{
    if (K::IS_Q8) return (K::PIECES == 4 ? row >> 1 & 1 : row & 3) << 1;
    return K::BYTES == 2 ? (row & 1) << 2 : row & 1;
}
template <typename K>
static __device__ __forceinline__ int value_turn(int row)
{
    if (K::IS_Q8) return (row >> 1 & (K::PIECES == 4 ? 1 : 3)) << 1;
    return K::BYTES == 2 ? (row >> 1 & 3) << 1 : (row >> 1 & 1) | (row >> 2 & 1) << 2;
}

/* Eight numbers of a row in shared memory, from number 8 n on; row: its first piece. */
static __device__ __forceinline__ void read_eight(lh_eight<__nv_bfloat16> *e, const uint4 *row, int n, int turn)
{
    e->w = row[n ^ turn];
}
static __device__ __forceinline__ void read_eight(lh_eight<float> *e, const uint4 *row, int n, int turn)
{
    e->x = ((const float4 *)row)[2 * n ^ turn];
    e->y = ((const float4 *)row)[(2 * n + 1) ^ turn];
}
static __device__ __forceinline__ void read_eight(lh_eight<int8_t> *e, const uint4 *row, int n, int turn)
{
    e->w = ((const uint2 *)row)[n ^ 2 * turn];
}
static __device__ __forceinline__ void write_eight(const lh_eight<__nv_bfloat16> &e, uint4 *row, int n, int turn)
{
    row[n ^ turn] = e.w;
}
static __device__ __forceinline__ void write_eight(const lh_eight<float> &e, uint4 *row, int n, int turn)
{
    ((float4 *)row)[2 * n ^ turn] = e.x;
    ((float4 *)row)[(2 * n + 1) ^ turn] = e.y;
}
static __device__ __forceinline__ void write_eight(const lh_eight<int8_t> &e, uint4 *row, int n, int turn)
{
    ((uint2 *)row)[n ^ 2 * turn] = e.w;
}

/* Copies KEYS rows of keys or values from slot `slot` on, of a cache that ends at `end`, with zeros after it, so that 0
 * times them is 0. `values`: the swizzle of values. */
typedef enum tile_order { OF_KEYS, OF_VALUES } tile_order;

template <typename K>
static __device__ __forceinline__ void copy_tile(uint4 *to, const typename K::T *from, int rows, lh_form form,
                                                 tile_order order)
{
    enum { PIECES = K::PIECES, NUMBERS = 16 / K::BYTES, EIGHTS = K::D / 8 };
    if (form.wide) {
#pragma unroll
        for (int n = (int)threadIdx.x; n < K::KEYS * PIECES; n += K::THREADS) {
            int row = n / PIECES, piece = n % PIECES, there = row < rows && piece * NUMBERS < form.dim;
            int turn = order == OF_KEYS ? key_turn<K>(row) : value_turn<K>(row);
            lh_copy_async(to + row * PIECES + (piece ^ turn),
                          there ? from + (int64_t)row * form.dim + piece * NUMBERS : from, there ? 16 : 0);
        }
        return;
    }
    for (int n = (int)threadIdx.x; n < K::KEYS * EIGHTS; n += K::THREADS) {
        int row = n / EIGHTS, e = n % EIGHTS;
        int turn = order == OF_KEYS ? key_turn<K>(row) : value_turn<K>(row);
        lh_eight<typename K::T> eight;
        lh_load(&eight, from + (int64_t)row * form.dim + 8 * e, row < rows ? form.dim - 8 * e : 0, 0);
        write_eight(eight, to + row * PIECES, e, turn);
    }
}

/* ---- the query rows of a block ---- */

/* Stages queries, times the factor of logits (of tanh's argument with a soft cap), for keys in 8 bits transformed
 * (q8.h), with zeros after rows and dimensions, in the layout of the products: 16 bytes are a lane's part of the first
 * matrix of one m16n8k16 product. [PARTS, ROWS / 16, D / 16, lanes]; the lane's numbers of two products are adjacent in
 * a row (mma.cuh). */
template <typename K>
static __device__ void stage_rows(const attend_job &a, const attend_place &p, unsigned *to)
{
    enum { OPERANDS = K::ROWS / 16 * K::STEPS * LH_WARP, EIGHTS = K::D / 8, PAIRS = 4 /* of an eight */ };
    const float factor = a.logit.softcap > 0 ? a.logit.scale / a.logit.softcap : a.logit.scale;
    for (int n = (int)threadIdx.x; n < K::ROWS * EIGHTS; n += K::THREADS) {
        const int k = n / EIGHTS, e = n % EIGHTS;
        const unsigned row = p.row0 + (unsigned)k;
        const float *q = a.q + row / p.count * a.q_ld + (p.i0 + row % p.count) * a.form.dim + 8 * e;
        unsigned *at = to + 4 * ((k / 16 * K::STEPS + e / 4 * 2) * LH_WARP + k % 8 * 4 + e % 4) + k % 16 / 8;
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = row < p.rows && 8 * e + i < a.form.dim ? q[i] * factor : 0.0f;
        if constexpr (K::IS_Q8) lh_hadamard_inverse(x, a.form.dim);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            unsigned word[K::PARTS];
            lh_cut_pair<K::PARTS>(word, x[2 * i], x[2 * i + 1]);
#pragma unroll
            for (int part = 0; part < K::PARTS; part++)
                at[4 * (part * OPERANDS + i / 2 * LH_WARP) + i % 2 * 2] = word[part];
        }
    }
}

/* ---- splits: few rows over many entries ----
 *
 * A tile of rows per KV head would keep few multiprocessors busy, e.g. for a question's rows over a long prompt. The
 * visible entries are split, one block per split; a second kernel combines the results. The maximum number of splits is
 * known on the host and the same for all heads; the actual number follows from the head's length, on the device: blocks
 * without a split exit. */

/* ATTEND_BUSY: blocks per multiprocessor, of which two run together. A split has at least MIN_SPLIT entries, and
 * SPLIT_PER_ROW entries for each row, so that its results are small compared with its input. */
enum { MAX_SPLITS = 256, ATTEND_BUSY = 4, MIN_SPLIT = 512, SPLIT_PER_ROW = 24, COMBINE_THREADS = 128 };

/* Blocks of rows of each KV head, KV heads; maximum rows of a block and entries of a tile. */
typedef struct attend_grid {
    int64_t tiles, heads, rows, keys;
} attend_grid;

static __device__ __forceinline__ int64_t unit_here(void)
{
    return (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
}

/* Maximum entries that a row tile of any head may see. */
static int64_t entries_seen(const lh_attend_block_args *b)
{
    int64_t near = b->logit.window + b->tokens;
    return b->logit.window > 0 && !b->kv->positions && near < b->most ? near : b->most;
}

/* Chooses the splits, with memory for their results, if there are no more blocks than multiprocessors and the order of
 * sums is free. Else one split. */
static lh_status split_entries(lh_stream *stream, const lh_attend_block_args *b, const attend_grid *grid,
                               attend_splits *splits)
{
    int64_t units = grid->tiles * grid->heads, seen = entries_seen(b), least = grid->rows * SPLIT_PER_ROW;
    int64_t processors = lh_cuda_processors(stream), most, tiles, numbers;
    char *memory = NULL;
    *splits = attend_splits{1, 0, grid->rows, NULL, NULL, NULL};
    if (b->order != LH_ORDER_ANY || units > processors) return LH_OK;
    most = processors * ATTEND_BUSY / units;
    if (least < MIN_SPLIT) least = MIN_SPLIT;
    if (most > seen / least) most = seen / least;
    if (most > MAX_SPLITS) most = MAX_SPLITS;
    if (most < 2) return LH_OK;
    splits->most = (int)most;
    tiles = (seen - 1) / (most * grid->keys) + 1;
    splits->tiles = (int)(tiles < INT32_MAX ? tiles : INT32_MAX);
    numbers = (units * most * grid->rows + 1) / 2 * 2; /* the next array is aligned to 16 bytes, too */
    LH_TRY(lh_stream_scratch(stream, &memory,
                             numbers * (b->kv->head_dim * (int64_t)sizeof(float) + (int64_t)sizeof(float2)) +
                                 units * (int64_t)sizeof(int)));
    splits->part = (float2 *)memory;
    splits->o = (float *)(splits->part + numbers);
    splits->count = (int *)(splits->o + numbers * b->kv->head_dim);
    return LH_OK;
}

/* Combines the splits of a row of a KV head (blockIdx.x, y), in their order. `rows`: rows of a tile. */
static __global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel(const __grid_constant__ attend_job a, int64_t tiles, unsigned rows)
{
    __shared__ float room[LH_WARP], weights[MAX_SPLITS];
    attend_place p = place_of(a, 0);
    unsigned row = blockIdx.x;
    if (row >= p.rows) return;
    int64_t unit = (p.head - a.first_head) * tiles + (tiles - 1 - row / rows), dim = a.form.dim;
    int64_t first = unit * a.splits.most * a.splits.rows + row % rows, token = row / p.count, i = p.i0 + row % p.count;
    int count = a.splits.count[unit];
    float row_max = -INFINITY, denominator = 0.0f;
    for (int n = (int)threadIdx.x; n < count; n += COMBINE_THREADS)
        row_max = fmaxf(row_max, a.splits.part[first + n * a.splits.rows].x);
    row_max = lh_block_max(row_max, room);
    for (int n = (int)threadIdx.x; n < count; n += COMBINE_THREADS) {
        float2 own = a.splits.part[first + n * a.splits.rows];
        weights[n] = lh_weight(own.x, lh_shift(row_max));
        denominator = fmaf(weights[n], own.y, denominator);
    }
    denominator = lh_block_sum(denominator, room); /* after its barrier all weights are written */
    if (a.lse && threadIdx.x == 0)
        a.lse[token * a.map.heads + i] = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
    for (int64_t x = threadIdx.x; x < dim; x += COMBINE_THREADS) {
        const float *at = a.splits.o + first * dim + x;
        float sum = 0.0f;
#pragma unroll 16
        for (int n = 0; n < count; n++) sum = fmaf(weights[n], at[n * a.splits.rows * dim], sum);
        float o = denominator != 0 ? sum / denominator : 0.0f;
        if (a.o) a.o[token * a.o_ld + i * dim + x] = o;
        if (a.o_bf16) lh_put(a.o_bf16 + token * a.o_ld + i * dim + x, o);
    }
}

static lh_status combine_splits(lh_stream *stream, const attend_job *a, const attend_grid *grid, int64_t rows)
{
    dim3 blocks((unsigned)(a->tokens * a->map.group), (unsigned)grid->heads);
    return lh_launch(stream, "attend_block", lh_shape{blocks, COMBINE_THREADS, 0}, combine_kernel, *a, grid->tiles,
                     (unsigned)rows);
}

/* A warp's rows: lane 4 g + t has rows g and g + 8 of each tile of 16 (i = 0, 1), and of these rows a share of the
 * denominator and the sums of dimensions 64 c + 16 t + j ([2 i]) and 64 c + 16 t + 8 + j ([2 i + 1]). */
template <typename K>
struct attend_state {
    float row_max[K::TILES][2], denominator[K::TILES][2];
    float sum[K::TILES][K::D / 64][8][4];
};

/* The visible slots of rows: slots below `limit` at positions above `before`; and for the rows of a warp the minimum
 * and maximum limit and the minimum position. Slots of a head are counted in 32 bits here, because registers are short:
 * 2^31 entries exceed any device. */
template <typename K>
struct attend_visible {
    int limit[K::ROWS], before[K::ROWS];
    int least_limit[K::WARPS], most_limit[K::WARPS], least_before[K::WARPS];
};

template <typename K>
static __device__ void find_visible_slots(const attend_job &a, const attend_place &p, attend_visible<K> *visible)
{
    enum { OF_WARP = K::ROWS / K::WARPS };
    int k = lh_warp() * OF_WARP + lh_lane() % OF_WARP, limit = 0, before = -1, least, most, lowest;
    unsigned row = p.row0 + (unsigned)k, t = row / p.count;
    if (row < p.rows) {
        limit = (int)(p.len - a.tokens + t + 1);
        if (a.logit.window > 0) before = lh_visible_range_of(a.positions, NULL, a.logit.window, t).before;
    }
    least = -lh_warp_max(row < p.rows ? -limit : -INT32_MAX);
    most = lh_warp_max(limit);
    lowest = -lh_warp_max(row < p.rows ? -before : -INT32_MAX);
    if (lh_lane() < OF_WARP) visible->limit[k] = limit, visible->before[k] = before;
    if (lh_lane() != 0) return;
    visible->least_limit[lh_warp()] = least;
    visible->most_limit[lh_warp()] = most;
    visible->least_before[lh_warp()] = lowest;
}

/* ---- visible tiles ---- */

/* Tiles of entries that the block's rows may see. With stored positions and a window, bit n of `visible` is set if tile
 * 8 * group + n has a visible entry. */
typedef struct attend_tiles {
    int end, tiles; /* entries and tiles */
    int first;      /* first visible tile */
    int before;     /* entries up to this position are invisible to all rows */
    int group;
    unsigned visible;
    int is_there; /* true if the head has this split */
} attend_tiles;

/* Restricts the tiles to this block's split. The first split writes the number of splits, and exists even without
 * tiles. */
static __device__ void choose_split(const attend_job &a, attend_tiles *tiles)
{
    int all = tiles->tiles - tiles->first, most = a.splits.most, each = a.splits.tiles, split = (int)blockIdx.z;
    int count = all > 0 ? (all - 1) / each + 1 : 1;
    if (count > most) count = most;
    if (split == 0) a.splits.count[unit_here()] = count;
    tiles->is_there = split < count;
    if (!tiles->is_there) return;
    tiles->first += split * each;
    if (split < count - 1) tiles->tiles = tiles->first + each;
}

/* Called by one thread. */
template <typename K>
static __device__ void find_tiles(const attend_job &a, const attend_visible<K> &visible, attend_tiles *tiles)
{
    *tiles = attend_tiles{0, 0, 0, INT32_MAX, -1, 0, 1};
    for (int w = 0; w < K::WARPS; w++) {
        tiles->end = visible.most_limit[w] > tiles->end ? visible.most_limit[w] : tiles->end;
        tiles->before = visible.least_before[w] < tiles->before ? visible.least_before[w] : tiles->before;
    }
    tiles->tiles = (tiles->end + K::KEYS - 1) / K::KEYS;
    if (!a.kv.positions) tiles->first = (tiles->before + 1) / K::KEYS;
    if (a.splits.most > 1) choose_split(a, tiles);
}

/* Positions of the head's slots, in the arrays that hold the slot. */
static __device__ __forceinline__ const int32_t *positions_at(const attend_job &a, const attend_place &p, int slot)
{
    return slot < p.shared ? a.kv.parent.positions + p.parent : a.kv.positions + p.offset;
}

/* Finds the visible ones of the 8 tiles from 8 * group on; all threads call it and get the result. */
template <typename K>
static __device__ void find_visible_tiles(const attend_job &a, const attend_place &p, attend_tiles *tiles, int group)
{
    enum { EACH = 8 * K::KEYS / K::THREADS }; /* slots of a thread, in a single tile */
    int any = 0;
    for (int i = 0; i < EACH; i++) {
        int slot = group * 8 * K::KEYS + (int)threadIdx.x * EACH + i;
        any |= slot < tiles->end && positions_at(a, p, slot)[slot] > tiles->before;
    }
    unsigned found = (unsigned)any << threadIdx.x / (K::THREADS / 8);
    for (int with = LH_WARP / 2; with > 0; with /= 2) found |= __shfl_xor_sync(LH_ALL, found, with);
    __syncthreads();
    if (threadIdx.x == 0) tiles->group = group, tiles->visible = 0;
    __syncthreads();
    if (lh_lane() == 0) atomicOr(&tiles->visible, found);
    __syncthreads();
}

/* The next visible tile, from `tile` on; all threads call it. */
template <typename K>
static __device__ int next_tile(const attend_job &a, const attend_place &p, attend_tiles *tiles, int tile)
{
    if (tile < tiles->first) tile = tiles->first;
    if (a.logit.window <= 0 || !a.kv.positions) return tile;
    for (; tile < tiles->tiles; tile++) {
        if (tile / 8 != tiles->group) find_visible_tiles<K>(a, p, tiles, tile / 8);
        if (tiles->visible >> tile % 8 & 1) break;
    }
    return tile;
}

/* ---- a tile ---- */

/* s: logits of the warp's rows, [tile of rows][8 entries][row g: entries 2 t, 2 t + 1; row g + 8]. */
template <typename K>
static __device__ __forceinline__ void products(float s[K::TILES][K::KEYS / 8][4], const uint4 *queries,
                                                const uint4 *keys)
{
    enum { PIECES = K::PIECES };
    int g = lh_lane() / 4, t = lh_lane() % 4;
    float rest[K::TILES][K::KEYS / 8][4] = {};
#pragma unroll
    for (int c = 0; c < K::D / 32; c++) {
        uint4 q[K::TILES][K::PARTS][2];
#pragma unroll
        for (int n = 0; n < 2 * K::TILES * K::PARTS; n++) {
            int m = n / 2 / K::PARTS, part = n / 2 % K::PARTS, tile = part * K::ROWS / 16 + lh_warp() * K::TILES + m;
            q[m][part][n % 2] = queries[(tile * K::STEPS + 2 * c + n % 2) * LH_WARP + lh_lane()];
        }
#pragma unroll
        for (int n = 0; n < K::KEYS / 8; n++) {
            lh_eight<typename K::T> key;
            read_eight(&key, keys + (8 * n + g) * PIECES, 4 * c + t, key_turn<K>(g));
#pragma unroll
            for (int e = 0; e < 2; e++) {
                unsigned x[K::PARTS][4], y[K::PARTS][2], word[K::PARTS];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    lh_cut_along(word, key, 2 * e + i);
#pragma unroll
                    for (int part = 0; part < K::PARTS; part++) y[part][i] = word[part];
                }
#pragma unroll
                for (int m = 0; m < K::TILES; m++) {
#pragma unroll
                    for (int i = 0; i < 4 * K::PARTS; i++) x[i / 4][i % 4] = lh_of(q[m][i / 4][e], i % 4);
                    lh_mma_parts<K::PARTS, K::PARTS>(s[m][n], rest[m][n], x, y);
                }
            }
        }
    }
    if constexpr (K::PARTS > 1) lh_add_all<K::TILES * K::KEYS / 2>(&s[0][0][0], &rest[0][0][0]);
}

/* Multiplies numbers of the entries by their scales in 8 bits: `own` of the cache, `parents` of its parent. */
template <typename K>
static __device__ __forceinline__ void scale(float s[K::TILES][K::KEYS / 8][4], const attend_place &p, const float *own,
                                             const float *parents, int slot)
{
    const float *scales = slot < p.shared ? parents + p.parent : own + p.offset;
#pragma unroll
    for (int n = 0; n < K::KEYS / 4; n++) {
        const int j = slot + n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        const float by = j < p.len ? scales[j] : 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * K::TILES; i++) s[i / 2][n / 2][i % 2 * 2 + n % 2] *= by;
    }
}

/* Adds the biases of the entries; entries after the head's last one have none. */
template <typename K>
static __device__ __forceinline__ void add_biases(float s[K::TILES][K::KEYS / 8][4], const attend_place &p,
                                                  const attend_job &a, int slot)
{
    const float *biases = slot < p.shared ? a.kv.parent.bias + p.parent : a.kv.bias + p.offset;
#pragma unroll
    for (int n = 0; n < K::KEYS / 4; n++) {
        int j = slot + n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        float bias = j < p.len ? biases[j] : 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * K::TILES; i++) s[i / 2][n / 2][i % 2 * 2 + n % 2] += bias;
    }
}

/* Sets -inf for entries that a row does not see. */
template <typename K>
static __device__ __forceinline__ void mask(float s[K::TILES][K::KEYS / 8][4], const attend_visible<K> &visible,
                                            const attend_place &p, const attend_job &a, int slot)
{
    const int32_t *positions = a.kv.positions && a.logit.window > 0 ? positions_at(a, p, slot) : NULL;
#pragma unroll
    for (int i = 0; i < 2 * K::TILES; i++) {
        int k = lh_warp() * 16 * K::TILES + 8 * i + lh_lane() / 4, limit = visible.limit[k], before = visible.before[k];
#pragma unroll
        for (int n = 0; n < K::KEYS / 4; n++) {
            int j = slot + n / 2 * 8 + lh_lane() % 4 * 2 + n % 2, at = !positions ? j : j < limit ? positions[j] : -1;
            if (j >= limit || at <= before) s[i / 2][n / 2][i % 2 * 2 + n % 2] = -INFINITY;
        }
    }
}

/* Turns logits into weights; rescales denominators and sums to the new row maximum. */
template <typename K>
static __device__ __forceinline__ void weigh(float s[K::TILES][K::KEYS / 8][4], attend_state<K> *state)
{
    float shrink[K::TILES][2];
    int moved = 0;
#pragma unroll
    for (int r = 0; r < 2 * K::TILES; r++) {
        int m = r / 2, i = r % 2;
        float row_max = -INFINITY, sum = 0.0f, shift;
#pragma unroll
        for (int n = 0; n < K::KEYS / 8; n++) row_max = fmaxf(row_max, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
        row_max = fmaxf(row_max, __shfl_xor_sync(LH_ALL, row_max, 1));
        row_max = fmaxf(row_max, __shfl_xor_sync(LH_ALL, row_max, 2));
        row_max = fmaxf(row_max, state->row_max[m][i]);
        shift = lh_shift(row_max);
        shrink[m][i] = lh_weight(state->row_max[m][i], shift);
        moved |= row_max != state->row_max[m][i];
        state->row_max[m][i] = row_max;
#pragma unroll
        for (int n = 0; n < K::KEYS / 8; n++) {
            s[m][n][2 * i] = lh_weight(s[m][n][2 * i], shift);
            s[m][n][2 * i + 1] = lh_weight(s[m][n][2 * i + 1], shift);
            sum += s[m][n][2 * i] + s[m][n][2 * i + 1];
        }
        state->denominator[m][i] = fmaf(state->denominator[m][i], shrink[m][i], sum);
    }
    if (!__any_sync(LH_ALL, moved)) return;
#pragma unroll
    for (int n = 0; n < K::TILES * K::D / 8; n++) {
        float *sum = state->sum[n / (K::D / 8)][n / 8 % (K::D / 64)][n % 8];
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] *= shrink[n / (K::D / 8)][i / 2];
    }
}

/* Weights times values, 16 entries at a time. */
template <typename K>
static __device__ __forceinline__ void add_values(attend_state<K> *state, const float s[K::TILES][K::KEYS / 8][4],
                                                  const uint4 *values)
{
    enum { PIECES = K::PIECES };
    int g = lh_lane() / 4, t = lh_lane() % 4;
#pragma unroll
    for (int k = 0; k < K::KEYS / 16; k++) {
        unsigned x[K::TILES][K::PARTS][4], word[K::PARTS];
#pragma unroll
        for (int n = 0; n < 4 * K::TILES; n++) {
            const float *pair = &s[n / 4][2 * k + n % 4 / 2][n % 2 * 2];
            lh_cut_pair<K::PARTS>(word, pair[0], pair[1]);
#pragma unroll
            for (int part = 0; part < K::PARTS; part++) x[n / 4][part][n % 4] = word[part];
        }
#pragma unroll
        for (int c = 0; c < K::D / 64; c++) {
            lh_eight<typename K::T> v[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = 16 * k + e / 2 * 8 + 2 * t + e % 2;
                read_eight(&v[e], values + row * PIECES, 8 * c + g, value_turn<K>(row));
            }
#pragma unroll
            for (int j = 0; j < 8; j++) {
                unsigned y[K::PARTS][2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    lh_cut_across(word, v[2 * i], v[2 * i + 1], j);
#pragma unroll
                    for (int part = 0; part < K::PARTS; part++) y[part][i] = word[part];
                }
#pragma unroll
                for (int m = 0; m < K::TILES; m++)
                    lh_mma_parts<K::PARTS, K::PARTS>(state->sum[m][c][j], state->sum[m][c][j], x[m], y);
            }
        }
    }
}

template <typename K>
static __device__ __forceinline__ void attend_tile(const attend_job &a, const attend_place &p,
                                                   const attend_visible<K> &visible, attend_state<K> *state,
                                                   const uint4 *tile[2], int slot)
{
    float s[K::TILES][K::KEYS / 8][4] = {};
    if (slot >= visible.most_limit[lh_warp()]) return;
    products<K>(s, (const uint4 *)lh_shared(), tile[0]);
    if constexpr (K::IS_Q8) scale<K>(s, p, a.kv.k_scale, a.kv.parent.k_scale, slot);
    if (a.logit.softcap > 0) {
#pragma unroll
        for (int n = 0; n < K::TILES * K::KEYS / 2; n++) {
            float *x = &s[n / 4 / (K::KEYS / 8)][n / 4 % (K::KEYS / 8)][n % 4];
            *x = a.logit.softcap * tanhf(*x);
        }
    }
    if (a.kv.bias) add_biases<K>(s, p, a, slot);
    if (a.logit.window > 0 || slot + K::KEYS > visible.least_limit[lh_warp()]) mask<K>(s, visible, p, a, slot);
    weigh<K>(s, state);
    if constexpr (K::IS_Q8) scale<K>(s, p, a.kv.v_scale, a.kv.parent.v_scale, slot);
    add_values<K>(state, s, tile[1]);
}

/* Destinations of a row's results. */
typedef struct attend_row {
    float *o;
    __nv_bfloat16 *o_bf16;
    float *lse;
    float2 *part;      /* results of a split */
    float denominator; /* divisor of sums; 1 for a split */
    int width;         /* as in attend_job */
} attend_row;

static __device__ __forceinline__ attend_row row_at(const attend_job &a, const attend_place &p, unsigned row,
                                                    float denominator)
{
    const attend_splits &splits = a.splits;
    int64_t token = row / p.count, i = p.i0 + row % p.count;
    int64_t at = (unit_here() * splits.most + blockIdx.z) * splits.rows + (row - p.row0);
    if (splits.most > 1)
        return attend_row{splits.o + at * a.form.dim, NULL, NULL, splits.part + at, 1.0f, a.form.dim % 4 == 0 ? 4 : 1};
    int64_t first = token * a.o_ld + i * a.form.dim;
    return attend_row{a.o ? a.o + first : NULL,
                      a.o_bf16 ? a.o_bf16 + first : NULL,
                      a.lse ? a.lse + token * a.map.heads + i : NULL,
                      NULL,
                      denominator,
                      a.o_width};
}

template <typename K>
static __device__ void write_rows(const attend_job &a, const attend_place &p, const attend_state<K> &state)
{
    int g = lh_lane() / 4, t = lh_lane() % 4, dim = a.form.dim;
#pragma unroll
    for (int r = 0; r < 2 * K::TILES; r++) {
        unsigned row = p.row0 + (unsigned)(lh_warp() * 16 * K::TILES + 8 * r + g);
        float denominator = state.denominator[r / 2][r % 2], row_max = state.row_max[r / 2][r % 2];
        denominator += __shfl_xor_sync(LH_ALL, denominator, 1);
        denominator += __shfl_xor_sync(LH_ALL, denominator, 2);
        if (row >= p.rows) continue;
        attend_row to = row_at(a, p, row, denominator);
        if (to.part && t == 0) *to.part = make_float2(row_max, denominator);
        if (to.lse && t == 0) *to.lse = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
#pragma unroll
        for (int n = 0; n < K::D / 16; n++) { /* a lane has 16 dimensions of 64, here four of them */
            int c = n / 4, x = 64 * c + 16 * t + n % 4 * 4;
            lh_four four;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float sum = state.sum[r / 2][c][n % 2 * 4 + j][r % 2 * 2 + n % 4 / 2];
                four.at[j] = to.denominator != 0 ? sum / to.denominator : 0.0f;
            }
            if (x >= dim) continue;
            if (to.o) lh_put4(to.o + x, four, dim - x, to.width);
            if (to.o_bf16) lh_put4(to.o_bf16 + x, four, dim - x, to.width);
        }
    }
}

/* blockIdx.x: tiles of rows, y: KV heads, z: splits of their entries. */
template <typename K>
static __global__ void __launch_bounds__(K::THREADS, K::D <= 128 ? 2 : 1)
    attend_kernel(const __grid_constant__ attend_job a)
{
    enum { TILE = K::TILE_BYTES / 16 };
    __shared__ attend_visible<K> visible;
    __shared__ attend_tiles tiles;
    __shared__ attend_place p;
    attend_state<K> state = {};
    uint4 *shared = (uint4 *)(lh_shared() + K::QUERY_BYTES);
    if (threadIdx.x == 0) p = place_of(a, K::ROWS);
    __syncthreads();
    if (p.row0 >= p.rows) return;
    if (blockIdx.z > 0 && (int64_t)blockIdx.z * a.splits.tiles * K::KEYS >= p.len) return; /* no such split */
    find_visible_slots<K>(a, p, &visible);
    __syncthreads();
    if (threadIdx.x == 0) find_tiles<K>(a, visible, &tiles);
    for (int r = 0; r < 2 * K::TILES; r++) state.row_max[r / 2][r % 2] = -INFINITY;
    stage_rows<K>(a, p, (unsigned *)lh_shared());
    __syncthreads();
    if (!tiles.is_there) return;
    int next = next_tile<K>(a, p, &tiles, 0), now = -1;
    for (int turn = 0; now < tiles.tiles; turn ^= 1) {
        /* The next tile replaces the previous one, which all threads have finished. */
        if (next < tiles.tiles) {
            int left = tiles.end - next * K::KEYS < K::KEYS ? tiles.end - next * K::KEYS : +K::KEYS;
            int64_t slot = (int64_t)next * K::KEYS;
            int is_shared = slot < p.shared;
            int64_t at = (slot + (is_shared ? p.parent : p.offset)) * a.form.dim;
            const typename K::T *k = (const typename K::T *)(is_shared ? a.kv.parent.k : a.kv.k) + at,
                                *v = (const typename K::T *)(is_shared ? a.kv.parent.v : a.kv.v) + at;
            copy_tile<K>(shared + 2 * turn * TILE, k, left, a.form, OF_KEYS);
            copy_tile<K>(shared + (2 * turn + 1) * TILE, v, left, a.form, OF_VALUES);
        }
        lh_copy_commit();
        lh_copy_wait<1>(); /* for the current tile */
        __syncthreads();
        const uint4 *tile[2] = {shared + 2 * (turn ^ 1) * TILE, shared + (2 * (turn ^ 1) + 1) * TILE};
        if (now >= 0) attend_tile<K>(a, p, visible, &state, tile, now * K::KEYS);
        __syncthreads();
        now = next;
        if (now < tiles.tiles) next = next_tile<K>(a, p, &tiles, now + 1);
    }
    write_rows<K>(a, p, state);
}

/* ---- the operation ---- */

typedef struct attend_way {
    void (*kernel)(attend_job);
    int64_t rows, keys, shared, fixed; /* shared memory, dynamic and static */
    int threads;
} attend_way;

template <typename T, int D, int WARPS, int TILES, int KEYS>
static attend_way way_for(void)
{
    typedef attend_kind<T, D, WARPS, TILES, KEYS> K;
    const int64_t fixed = sizeof(attend_visible<K>) + sizeof(attend_tiles) + sizeof(attend_place);
    return attend_way{attend_kernel<K>, K::ROWS, K::KEYS, K::SHARED, fixed, K::THREADS};
}

/* Threads on a multiprocessor with `shared` bytes per block: of at most two blocks, for which there are registers. */
static int64_t threads_of(const attend_way &way, int64_t shared)
{
    int64_t blocks = (shared + LH_SHARED_OF_BLOCK) / (way.shared + way.fixed + LH_SHARED_OF_BLOCK);
    return (blocks < 2 ? blocks : 2) * way.threads;
}

/* The variant with more threads on a multiprocessor; of two equal ones the one with larger tiles or more warps. */
static attend_way better(const attend_way &large, const attend_way &small, int64_t shared)
{
    return threads_of(large, shared) >= threads_of(small, shared) ? large : small;
}

/* Over a bf16 cache of up to 128 dimensions. Tiles of 64 entries spill some registers, but take 0.9 of the time of
 * tiles of 32 (H200); on sm_80 they leave room for one block. */
static attend_way way_of_128(int64_t rows, int64_t shared)
{
    typedef __nv_bfloat16 T;
    const attend_way large = way_for<T, 128, 4, 2, 64>(), small = way_for<T, 128, 4, 2, 32>();
    if (better(large, small, shared).keys == large.keys) return rows <= 64 ? way_for<T, 128, 4, 1, 64>() : large;
    return rows <= 64 ? way_for<T, 128, 4, 1, 32>() : small;
}

/* The size of tiles of entries affects the last bits of a row: it follows from the type, the dimensions and the device
 * alone; blocks of fewer rows, for KV heads with fewer rows, give the same bits. */
static attend_way way_of(lh_dtype type, int64_t dim, int64_t rows, int64_t shared)
{
    typedef __nv_bfloat16 T;
    if (type == LH_F32) {
        if (dim <= 64) return way_for<float, 64, 4, 1, 32>();
        if (dim <= 128) return better(way_for<float, 128, 4, 1, 32>(), way_for<float, 128, 4, 1, 16>(), shared);
        return better(way_for<float, 256, 4, 1, 16>(), way_for<float, 256, 1, 1, 16>(), shared);
    }
    if (type == LH_Q8) { /* rows of a question, usually few */
        if (dim <= 64) return way_for<int8_t, 64, 4, 1, 64>();
        return dim <= 128 ? way_for<int8_t, 128, 4, 1, 64>() : way_for<int8_t, 256, 4, 1, 32>();
    }
    if (dim <= 64) return rows <= 64 ? way_for<T, 64, 4, 1, 64>() : way_for<T, 64, 4, 2, 64>();
    if (dim <= 128) return way_of_128(rows, shared);
    return better(way_for<T, 256, 4, 1, 32>(), way_for<T, 256, 4, 1, 16>(), shared);
}

lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *b)
{
    int64_t dim = b->kv->head_dim, rows = b->tokens * b->map.group;
    attend_job a;
    attend_way way;
    attend_grid grid;
    if (dim > 256)
        LH_FAIL(LH_EINTERNAL, "attend_block on a GPU: heads of %lld dimensions, more than 256", (long long)dim);
    a = attend_job_of(b);
    way = way_of(b->kv->type, dim, rows, lh_cuda_shared(stream));
    grid.tiles = (rows + way.rows - 1) / way.rows;
    grid.heads = attend_heads(b);
    grid.rows = rows < way.rows ? rows : way.rows;
    grid.keys = way.keys;
    LH_TRY(split_entries(stream, b, &grid, &a.splits));
    LH_TRY(lh_launch(
        stream, "attend_block",
        lh_shape{dim3((unsigned)grid.tiles, (unsigned)grid.heads, (unsigned)a.splits.most), way.threads, way.shared},
        way.kernel, a));
    if (a.splits.most > 1) LH_TRY(combine_splits(stream, &a, &grid, way.rows));
    return LH_OK;
}
