/* split_kv.cuh - query rows over all entries of ragged caches (attend_decode, row_lse), split over the entries:
 * flash-decoding.
 *
 * The entries of a KV head are cut in splits; their number depends on the head's length, up to a maximum: enough to
 * keep the multiprocessors busy if the order of sums is free, else LH_SPLITS. A block has one split and a tile of rows
 * of one sequence and KV head: row r of query head i at r * (heads of the group here) + i. It exits if its head has no
 * such split, so the grid does not depend on lengths and a CUDA graph can be replayed. Splits leave their row maxima,
 * denominators and sums of values; the last block of a head to finish combines them in their order. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_CUH

#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/softmax.cuh"

enum {
    LH_SPLITS = 128,    /* maximum splits of a head */
    LH_SPLIT_SEQS = 16, /* sequences of a launch */
    LH_SPLIT_WARPS = 4, /* warps of a block */
    LH_SPLIT_KEYS = 16, /* entries that a warp processes together */
    LH_SPLIT_MAX_DIM = 256
};
#define LH_SPLIT_THREADS (LH_SPLIT_WARPS * LH_WARP)
#define LH_SPLIT_STEP (LH_SPLIT_WARPS * LH_SPLIT_KEYS)
static_assert(LH_SHARED_BLOCK % LH_SPLIT_KEYS == 0, "entries of a warp lie in one segment");

/* Results of the splits of a head, which the last block combines; units = (sequence * heads + head) * tiles + tile. */
typedef struct lh_split_parts {
    float *o;          /* [units, LH_SPLITS, tile, dim] */
    float2 *sums;      /* [units, tile, LH_SPLITS] row maximum and denominator */
    uint32_t *arrived; /* [units] 0 */
} lh_split_parts;

/* Rows over the caches of `seqs`, which are host structs copied into the launch. Row r of sequence b is row b * rows +
 * r of every array. */
typedef struct lh_split_kv {
    float *o;              /* sums of values; NULL: not wanted */
    __nv_bfloat16 *o_bf16; /* the same rounded; may be NULL */
    float *lse;            /* may be NULL */
    const float *q;
    const int32_t *positions, *until; /* as in lh_observed */
    const float *gains;
    int64_t rows, q_ld, o_ld; /* rows of a sequence */
    lh_grouping map;
    lh_logit logit;
    int64_t first_head, heads; /* KV heads */
    int tiles;                 /* tiles of rows of each */
    lh_form form;
    int tile; /* maximum rows of a tile */
    int most; /* maximum splits of a head */
    lh_split_parts parts;
    lh_ragged seqs[LH_SPLIT_SEQS];
    lh_row_logits logits[LH_SPLIT_SEQS]; /* for rows = 1 */
} lh_split_kv;

/* The sequence, head, rows and entries of a block. */
typedef struct lh_split_place {
    int64_t head, seq, unit;
    int64_t i0;         /* the first query head */
    int count;          /* query heads */
    int row0, rows;     /* rows of the tile, among the sequence's rows * count */
    int64_t slots;      /* first slot of the head in the cache */
    int shared;         /* slots of the head in the parent; counted in 32 bits, because registers are short */
    int64_t first, end; /* slots of the split */
    int splits, split;
} lh_split_place;

/* Entries of a split, a multiple of LH_SPLIT_STEP: short splits keep all multiprocessors busy, long ones leave little
 * to combine. */
static __device__ __forceinline__ int64_t lh_piece(int64_t len, int most)
{
    const int64_t step = LH_SPLIT_STEP, even = ((len + most - 1) / most + step - 1) / step * step;
    int64_t least = 4 * step;
    if (len <= 64 * 2 * step) least = 2 * step;
    if (len <= 32 * step) least = step;
    return even > least ? even : least;
}

/* Returns 0 if the block has nothing to do. */
static __device__ __forceinline__ int lh_split_find(const lh_split_kv &a, lh_split_place *p)
{
    const lh_grouping &map = a.map;
    const lh_ragged &kv = a.seqs[blockIdx.y];
    int n = (int)blockIdx.x / a.tiles, tile = (int)blockIdx.x % a.tiles, left;
    int64_t low, high;
    p->head = a.first_head + n;
    p->seq = blockIdx.y;
    p->split = (int)blockIdx.z;
    int64_t len = kv.len[p->head], piece = lh_piece(len, a.most);
    p->splits =
        len > 0 ? (int)((unsigned)(len + piece - 1) / (unsigned)piece) : 1; /* heads have less than 2^32 entries */
    low = p->head * map.group > map.first ? p->head * map.group : map.first;
    high = (p->head + 1) * map.group < map.first + map.heads ? (p->head + 1) * map.group : map.first + map.heads;
    p->i0 = low - map.first;
    p->count = (int)(high - low);
    p->row0 = tile * a.tile;
    left = (int)a.rows * p->count - p->row0;
    p->rows = left < a.tile ? left : a.tile;
    p->unit = (p->seq * a.heads + n) * a.tiles + tile;
    p->slots = kv.offset[p->head];
    p->shared = (int)lh_parent_len(&kv, p->head);
    p->first = p->split * piece;
    p->end = p->first + piece < len ? p->first + piece : len;
    return p->split < p->splits && left > 0;
}

/* Row k of the tile: its row in the arrays and its query head. */
static __device__ __forceinline__ void lh_split_row(const lh_split_kv &a, const lh_split_place &p, int k, int64_t *r,
                                                    int64_t *i)
{
    int at = p.row0 + k;
    *r = p.seq * a.rows + at / p.count;
    *i = p.i0 + at % p.count;
}

/* ---- kinds of kernel, and the query rows of a block ---- */

/* Three parts of a query and of a weight. */
enum { SCAN_PARTS = 3 };

template <typename T_, int D_, int HALVES_, int VALUES_>
struct split_kind {
    typedef T_ T;
    enum {
        D = D_,           /* dimensions, padded */
        HALVES = HALVES_, /* rows of a tile / 8 */
        VALUES = VALUES_, /* true if values are summed */
        ROWS = 8 * HALVES_,
        KEY_CHUNKS = D_ / 32, /* a lane has 8 numbers of each */
        VALUE_CHUNKS = D_ / 64,
        PARTS = lh_parts<T_>::COUNT,
        PITCH =
            D_ + 32, /* distance of rows of queries in shared memory, in bf16: consecutive rows begin 16 banks apart */
        SMALL = sizeof(T_) == 2 && D_ <= 128,      /* true if there are registers for values in addition to keys */
        STAGE = SMALL ? D_ / 32 : 2,               /* chunks of keys in flight */
        BLOCKS = D_ <= 128 && HALVES_ == 1 ? 3 : 2 /* blocks on a multiprocessor */
    };
};

/* A warp's share of the rows: lane 4 g + t has rows 8 h + 2 t and 8 h + 2 t + 1 (i = 0, 1), and of these rows a share
 * of the denominator and the sums of values of the dimensions 64 c + 8 g + 2 j (sum[c][j][h][i]) and 64 c + 8 g + 2 j +
 * 1 ([2 + i]). */
template <typename K>
struct split_state {
    float row_max[K::HALVES][2], denominator[K::HALVES][2];
    float sum[K::VALUE_CHUNKS][4][K::HALVES][4];
};

/* A lane's part of its rows. */
template <typename K>
struct split_rows {
    lh_visible_range visible[K::HALVES][2];
    float gain[K::HALVES][2];
    float *logits[K::HALVES][2]; /* of slot 0; NULL: not wanted */
};

/* The 16 entries of a warp from `slot` on, with `left` entries in the split. k: keys of entry g, from dimension 8 t on;
 * at: positions of g and 8 + g, -1: not in the split; bias: their biases. v: values of entry 2 t, from dimension 8 g
 * on; seen: whether rows see 2 t, 2 t + 1, 2 t + 8, 2 t + 9; all: whether they see all entries of the split. */
template <typename K>
struct split_entry {
    const typename K::T *k, *v;
    int64_t slot;
    int left, at[2], seen[4], all;
    float bias[2];
};

/* Queries of the tile in shared memory: [SCAN_PARTS, ROWS, PITCH] bf16, zeros after rows and dimensions. */
template <typename K>
static __device__ void stage_queries(const lh_split_kv &a, const lh_split_place &p, unsigned *to)
{
    enum { PAIRS = K::D / 2, PITCH = K::PITCH / 2 };
    for (int n = (int)threadIdx.x; n < K::ROWS * PAIRS; n += LH_SPLIT_THREADS) {
        int k = n / PAIRS, x = n % PAIRS * 2;
        unsigned word[SCAN_PARTS];
        float pair[2] = {0, 0};
        if (k < p.rows) {
            int64_t r, i;
            lh_split_row(a, p, k, &r, &i);
            const float *q = a.q + r * a.q_ld + i * a.form.dim;
            if (x < a.form.dim) pair[0] = q[x];
            if (x + 1 < a.form.dim) pair[1] = q[x + 1];
        }
        lh_cut_pair<SCAN_PARTS>(word, pair[0], pair[1]);
#pragma unroll
        for (int part = 0; part < SCAN_PARTS; part++) to[(part * K::ROWS + k) * PITCH + x / 2] = word[part];
    }
}

/* Rows after the tile's last one see the same entries as the last one; their results are not used. */
template <typename K>
static __device__ void describe_rows(const lh_split_kv &a, const lh_split_place &p, split_rows<K> *rows)
{
    const lh_row_logits &out = a.logits[p.seq];
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2, at = k < p.rows ? k : p.rows - 1;
        int64_t r, i;
        lh_split_row(a, p, at, &r, &i);
        rows->visible[n / 2][n % 2] = lh_visible_range_of(a.positions, a.until, a.logit.window, r);
        rows->gain[n / 2][n % 2] = a.gains ? a.gains[r] : 1.0f;
        rows->logits[n / 2][n % 2] = out.at && k < p.rows ? out.at + i * out.ld : NULL;
    }
}

/* ---- logits of a warp's entries ---- */

/* The entries from `slot` on, without their visibility: loads do not wait for positions. */
template <typename K>
static __device__ __forceinline__ void find_entries(split_entry<K> *entry, const lh_split_kv &a,
                                                    const lh_split_place &p, int64_t slot)
{
    const lh_ragged &kv = a.seqs[p.seq];
    const int shared = slot < p.shared;
    const int64_t slots = (shared ? kv.parent.offset[p.head] : p.slots) + slot;
    const int32_t *positions = shared ? kv.parent.positions : kv.positions;
    const float *bias = shared ? kv.parent.bias : kv.bias;
    int g = lh_lane() / 4, t = lh_lane() % 4;
    entry->slot = slot;
    entry->left = p.end - slot < LH_SPLIT_KEYS ? (int)(p.end - slot) : +LH_SPLIT_KEYS;
    entry->k = (const typename K::T *)(shared ? kv.parent.k : kv.k) + (slots + g) * a.form.dim + 8 * t;
    entry->v = (const typename K::T *)(shared ? kv.parent.v : kv.v) + (slots + 2 * t) * a.form.dim + 8 * g;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        int j = 8 * n + g;
        entry->at[n] = j >= entry->left ? -1 : positions ? positions[slots + j] : (int)(slot + j);
        entry->bias[n] = j < entry->left && bias ? bias[slots + j] : 0.0f;
    }
}

/* Returns 1 if a row of the warp sees one of the entries. If values are summed all rows see the same entries. */
template <typename K>
static __device__ __forceinline__ int look(split_entry<K> *entry, const split_rows<K> &rows)
{
    int t = lh_lane() % 4;
    unsigned seen[2], all = LH_ALL;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        int any = 0;
#pragma unroll
        for (int i = 0; i < 2 * K::HALVES; i++) any |= lh_sees(rows.visible[i / 2][i % 2], entry->at[n]);
        seen[n] = __ballot_sync(LH_ALL, any);
        all &= __ballot_sync(LH_ALL, any || entry->at[n] < 0);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) entry->seen[e] = seen[e / 2] >> 4 * (2 * t + e % 2) & 1;
    entry->all = all == LH_ALL;
    return (seen[0] | seen[1]) != 0;
}

/* Chunks from .. from + STAGE - 1 of the keys of entries g and 8 + g. */
template <typename K>
static __device__ __forceinline__ void load_keys(lh_eight<typename K::T> keys[K::STAGE][2], const lh_split_kv &a,
                                                 const split_entry<K> &entry, int from)
{
#pragma unroll
    for (int c = 0; c < K::STAGE; c++) {
        int left = a.form.dim - 32 * (from + c) - 8 * (lh_lane() % 4);
#pragma unroll
        for (int n = 0; n < 2; n++)
            lh_load(&keys[c][n], entry.k + 32 * (from + c) + 8 * n * a.form.dim,
                    8 * n + lh_lane() / 4 < entry.left ? left : 0, a.form.wide);
    }
}

/* A chunk of 32 dimensions of the 16 keys, times the rows. q: the words of row g. */
template <typename K>
static __device__ __forceinline__ void add_chunk(float s[K::HALVES][4], float rest[K::HALVES][4],
                                                 const lh_eight<typename K::T> key[2],
                                                 const uint4 q[K::HALVES][SCAN_PARTS])
{
#pragma unroll
    for (int e = 0; e < 2; e++) {
        unsigned a[K::PARTS][4], b[SCAN_PARTS][2], word[K::PARTS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            lh_cut_along(word, key[i % 2], 2 * e + i / 2);
#pragma unroll
            for (int part = 0; part < K::PARTS; part++) a[part][i] = word[part];
        }
#pragma unroll
        for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
            for (int i = 0; i < 2 * SCAN_PARTS; i++) b[i / 2][i % 2] = lh_of(q[h][i / 2], 2 * e + i % 2);
            lh_mma_parts<K::PARTS, SCAN_PARTS>(s[h], rest[h], a, b);
        }
    }
}

/* s: q.k of entry g with the lane's rows, then of entry 8 + g. keys: the first stage. */
template <typename K>
static __device__ __forceinline__ void products(float s[K::HALVES][4], const lh_split_kv &a,
                                                lh_eight<typename K::T> keys[K::STAGE][2], const split_entry<K> &entry)
{
    const uint4 *queries = (const uint4 *)lh_shared() + lh_lane() / 4 * (K::PITCH / 8) + lh_lane() % 4;
    float rest[K::HALVES][4] = {};
#pragma unroll
    for (int from = 0; from < K::KEY_CHUNKS; from += K::STAGE) {
        if (from) load_keys<K>(keys, a, entry, from);
#pragma unroll
        for (int c = 0; c < K::STAGE; c++) {
            uint4 q[K::HALVES][SCAN_PARTS];
#pragma unroll
            for (int part = 0; part < SCAN_PARTS; part++) {
#pragma unroll
                for (int h = 0; h < K::HALVES; h++)
                    q[h][part] = queries[(part * K::ROWS + 8 * h) * (K::PITCH / 8) + 4 * (from + c)];
            }
            add_chunk<K>(s, rest, keys[c], q);
        }
    }
    lh_add_all<4 * K::HALVES>(&s[0][0], &rest[0][0]);
}

/* Turns products into logits, with -inf for entries that a row does not see. */
template <typename K>
static __device__ __forceinline__ void mask(float s[K::HALVES][4], const lh_split_kv &a, const split_rows<K> &rows,
                                            const split_entry<K> &entry)
{
#pragma unroll
    for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = lh_capped(s[h][i] * a.logit.scale, a.logit.softcap), *logits = rows.logits[h][i % 2];
            int at = entry.at[i / 2];
            if (logits && at >= 0) logits[entry.slot + i / 2 * 8 + lh_lane() / 4] = x;
            s[h][i] = lh_sees(rows.visible[h][i % 2], at) ? fmaf(x, rows.gain[h][i % 2], entry.bias[i / 2]) : -INFINITY;
        }
    }
}

/* ---- weights, and sums of values ---- */

/* Turns logits into weights; rescales denominators and sums to the new row maximum. */
template <typename K>
static __device__ __forceinline__ void weigh(float s[K::HALVES][4], split_state<K> *state)
{
    float shrink[K::HALVES][2];
    int moved = 0;
#pragma unroll
    for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float row_max = fmaxf(s[h][i], s[h][2 + i]), shift;
            for (int with = 4; with < LH_WARP; with *= 2)
                row_max = fmaxf(row_max, __shfl_xor_sync(LH_ALL, row_max, with));
            row_max = fmaxf(row_max, state->row_max[h][i]);
            shift = lh_shift(row_max);
            shrink[h][i] = lh_weight(state->row_max[h][i], shift);
            moved |= row_max != state->row_max[h][i];
            state->row_max[h][i] = row_max;
            s[h][i] = lh_weight(s[h][i], shift);
            s[h][2 + i] = lh_weight(s[h][2 + i], shift);
            state->denominator[h][i] = fmaf(state->denominator[h][i], shrink[h][i], s[h][i] + s[h][2 + i]);
        }
    }
    if constexpr (K::VALUES) {
        if (!__any_sync(LH_ALL, moved)) return;
#pragma unroll
        for (int n = 0; n < K::VALUE_CHUNKS * 4 * K::HALVES; n++) {
            float *sum = state->sum[n / (4 * K::HALVES)][n / K::HALVES % 4][n % K::HALVES];
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] *= shrink[n % K::HALVES][i % 2];
        }
    }
}

/* Numbers 64 c + 8 g .. + 7 of the values of entries 2 t, 2 t + 1, 2 t + 8, 2 t + 9. */
template <typename K>
static __device__ __forceinline__ void load_values(lh_eight<typename K::T> v[4], const lh_split_kv &a,
                                                   const split_entry<K> &entry, int c)
{
    int left = a.form.dim - 64 * c - 8 * (lh_lane() / 4);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int n = e / 2 * 8 + e % 2;
        lh_load(&v[e], entry.v + 64 * c + n * a.form.dim, n + 2 * (lh_lane() % 4) < entry.left ? left : 0, a.form.wide);
    }
}

/* p: weights of row g with the entries of v. */
template <typename K>
static __device__ __forceinline__ void add_values(float sum[4][K::HALVES][4], const lh_eight<typename K::T> v[4],
                                                  const unsigned p[K::HALVES][SCAN_PARTS][2])
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        unsigned a[K::PARTS][4], word[K::PARTS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            lh_cut_across(word, v[i / 2 * 2], v[i / 2 * 2 + 1], 2 * j + i % 2);
#pragma unroll
            for (int part = 0; part < K::PARTS; part++) a[part][i] = word[part];
        }
#pragma unroll
        for (int h = 0; h < K::HALVES; h++) lh_mma_parts<K::PARTS, SCAN_PARTS>(sum[j][h], sum[j][h], a, p[h]);
    }
}

/* s: weights. values: the first chunks, if they were loaded before. */
template <typename K>
static __device__ __forceinline__ void
add_weighed(split_state<K> *state, const lh_split_kv &a, const float s[K::HALVES][4],
            lh_eight<typename K::T> values[K::VALUE_CHUNKS][4], const split_entry<K> &entry)
{
    unsigned weights[K::HALVES][SCAN_PARTS][2], word[SCAN_PARTS];
#pragma unroll
    for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            lh_cut_pair<SCAN_PARTS>(word, s[h][2 * n], s[h][2 * n + 1]);
#pragma unroll
            for (int part = 0; part < SCAN_PARTS; part++) weights[h][part][n] = lh_transposed(word[part]);
        }
    }
#pragma unroll
    for (int c = 0; c < K::VALUE_CHUNKS; c++) {
        if (!K::SMALL) load_values<K>(values[c], a, entry, c);
        if (!entry.all) { /* memory of invisible entries may hold numbers that are not finite */
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (!entry.seen[e]) lh_zero(&values[c][e]);
        }
        add_values<K>(state->sum[c], values[c], weights);
    }
}

/* Processes the warp's 16 entries from `slot` on. */
template <typename K>
static __device__ __forceinline__ void split_entries(split_state<K> *state, const lh_split_kv &a,
                                                     const lh_split_place &p, const split_rows<K> &rows, int64_t slot)
{
    split_entry<K> entry = {};
    lh_eight<typename K::T> keys[K::STAGE][2], values[K::VALUE_CHUNKS][4] = {};
    float s[K::HALVES][4] = {};
    find_entries<K>(&entry, a, p, slot);
    /* With a window there may be many invisible entries; without one there are few, and loads need not wait for
     * positions. */
    if (a.logit.window > 0 && !look<K>(&entry, rows)) return;
    load_keys<K>(keys, a, entry, 0);
    if constexpr (K::SMALL && K::VALUES) {
#pragma unroll
        for (int c = 0; c < K::VALUE_CHUNKS; c++) load_values<K>(values[c], a, entry, c);
    }
    if (a.logit.window <= 0 && !look<K>(&entry, rows)) return;
    products<K>(s, a, keys, entry);
    mask<K>(s, a, rows, entry);
    weigh<K>(s, state);
    if constexpr (K::VALUES) add_weighed<K>(state, a, s, values, entry);
}

/* ---- combining the splits of a row, by the last block to finish, in the order of the splits ---- */

/* The result of a row of the tile: o = sum / denominator (0 where there is no denominator), lse. */
static __device__ __forceinline__ float lh_quotient(float sum, float denominator)
{
    return denominator != 0 ? sum / denominator : 0.0f;
}

static __device__ __forceinline__ void lh_split_tell(const lh_split_kv &a, const lh_split_place &p, int k,
                                                     float row_max, float denominator)
{
    int64_t r, i;
    lh_split_row(a, p, k, &r, &i);
    if (a.lse) a.lse[r * a.map.heads + i] = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
}

/* Shared memory for combining: [4] numbers of every row, and room for sums or weights. */
typedef struct lh_split_joint {
    float *row_max, *denominator; /* [tile] over all splits */
    float *weights;               /* [tile, LH_SPLITS] of the splits */
} lh_split_joint;

/* The weights of row k's splits, by one warp. */
static __device__ inline void lh_split_weigh(const lh_split_kv &a, const lh_split_place &p, int k,
                                             const lh_split_joint &j)
{
    const float2 *part = a.parts.sums + (p.unit * a.tile + k) * LH_SPLITS;
    float row_max = -INFINITY, denominator = 0.0f;
    for (int s = lh_lane(); s < p.splits; s += LH_WARP) row_max = fmaxf(row_max, __ldcg(&part[s]).x);
    row_max = lh_warp_max(row_max);
    for (int s = lh_lane(); s < p.splits; s += LH_WARP) {
        float2 own = __ldcg(&part[s]);
        float weight = lh_weight(own.x, lh_shift(row_max));
        j.weights[k * LH_SPLITS + s] = weight;
        denominator = fmaf(weight, own.y, denominator);
    }
    denominator = lh_warp_sum(denominator);
    if (lh_lane() == 0) j.row_max[k] = row_max, j.denominator[k] = denominator;
}

static __device__ __forceinline__ void lh_add_weighted(float *sum, float weight, float x)
{
    *sum = fmaf(weight, x, *sum);
}
static __device__ __forceinline__ void lh_add_weighted(float4 *sum, float weight, float4 x)
{
    sum->x = fmaf(weight, x.x, sum->x);
    sum->y = fmaf(weight, x.y, sum->y);
    sum->z = fmaf(weight, x.z, sum->z);
    sum->w = fmaf(weight, x.w, sum->w);
}

/* Writes numbers of o from `at` on. */
static __device__ __forceinline__ void lh_split_put(const lh_split_kv &a, int64_t at, float sum, float denominator)
{
    float o = lh_quotient(sum, denominator);
    a.o[at] = o;
    if (a.o_bf16) lh_put(a.o_bf16 + at, o);
}
static __device__ __forceinline__ void lh_split_put(const lh_split_kv &a, int64_t at, float4 sum, float denominator)
{
    lh_split_put(a, at, sum.x, denominator);
    lh_split_put(a, at + 1, sum.y, denominator);
    lh_split_put(a, at + 2, sum.z, denominator);
    lh_split_put(a, at + 3, sum.w, denominator);
}

/* The sums of all splits, V numbers per thread, with 16 splits in flight. */
template <typename V>
static __device__ void lh_split_add(const lh_split_kv &a, const lh_split_place &p, const lh_split_joint &j)
{
    int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide;
    for (int n = (int)threadIdx.x; n < p.rows * per_row; n += LH_SPLIT_THREADS) {
        int k = n / per_row, x = n % per_row;
        const V *at = (const V *)(a.parts.o + (p.unit * LH_SPLITS * a.tile + k) * a.form.dim) + x;
        int64_t next = (int64_t)a.tile * per_row, r, i;
        const float *weights = j.weights + k * LH_SPLITS;
        V sum;
        memset(&sum, 0, sizeof sum);
#pragma unroll 16
        for (int s = 0; s < p.splits; s++) lh_add_weighted(&sum, weights[s], __ldcg(at + s * next));
        lh_split_row(a, p, k, &r, &i);
        lh_split_put(a, r * a.o_ld + i * a.form.dim + x * wide, sum, j.denominator[k]);
    }
}

/* By the last block of a unit. */
static __device__ inline void lh_split_merge(const lh_split_kv &a, const lh_split_place &p, const lh_split_joint &j)
{
    for (int k = lh_warp(); k < p.rows; k += LH_SPLIT_WARPS) lh_split_weigh(a, p, k, j);
    __syncthreads();
    if ((int)threadIdx.x < p.rows)
        lh_split_tell(a, p, (int)threadIdx.x, j.row_max[threadIdx.x], j.denominator[threadIdx.x]);
    if (!a.o) return;
    if (a.form.dim % 4 == 0)
        lh_split_add<float4>(a, p, j);
    else
        lh_split_add<float>(a, p, j);
}

/* Returns 1 in the last block of a unit to finish: it sees the results of all other blocks. */
static __device__ inline int lh_split_is_last(const lh_split_kv &a, const lh_split_place &p)
{
    __shared__ int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&a.parts.arrived[p.unit], 1u) == (uint32_t)p.splits - 1;
        if (last) a.parts.arrived[p.unit] = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* ---- the kernel ----
 *
 * Entries times rows of a tile on the tensor cores, for any type of cache (queries and weights in three parts: nothing
 * is rounded to bf16), with every byte of the cache read once for up to 16 rows.
 *
 * A warp takes 16 entries at a time: their keys (and values) come from device memory directly in the layout of the
 * products, 16 bytes per lane, 64 or 128 of a row together. Entries are the 16 rows of a product and query rows its 8
 * columns, so a group of fewer than 8 heads wastes only the missing columns. With 16 x 128 bf16 numbers of keys and of
 * values 8 KiB are in flight per warp, 96 KiB per multiprocessor, three times the memory's latency-bandwidth product;
 * the products take a fifth of the time of the loads. */

/* Shared memory: queries while entries are read, then sums [tile, dim] or weights of splits; and the row maxima and
 * denominators of the warps. */
template <typename K>
struct split_room {
    enum {
        QUERY_BYTES = 2 * SCAN_PARTS * K::ROWS * K::PITCH, /* more than the sums */
        WEIGHT_BYTES = 4 * K::ROWS * LH_SPLITS,
        FIRST = (int)QUERY_BYTES > (int)WEIGHT_BYTES ? (int)QUERY_BYTES : (int)WEIGHT_BYTES,
        BYTES = FIRST + 4 * K::ROWS * (2 * LH_SPLIT_WARPS + 2)
    };
    float *sums;                      /* [ROWS, D] */
    float *row_maxima, *denominators; /* [LH_SPLIT_WARPS, ROWS] */
    lh_split_joint joint;
};

template <typename K>
static __device__ __forceinline__ split_room<K> room_of(void)
{
    float *sums = (float *)lh_shared(), *row_maxima = (float *)(lh_shared() + split_room<K>::FIRST);
    float *denominators = row_maxima + LH_SPLIT_WARPS * K::ROWS, *row_max = denominators + LH_SPLIT_WARPS * K::ROWS;
    return split_room<K>{sums, row_maxima, denominators, {row_max, row_max + K::ROWS, sums}};
}

/* Sums of a warp, rescaled to the row maximum of all warps, are stored (by the first warp) or added. */
template <typename K>
static __device__ void give_sums(const split_state<K> &state, const float shrink[K::HALVES][2],
                                 const split_room<K> &room)
{
    int g = lh_lane() / 4, t = lh_lane() % 4;
#pragma unroll
    for (int c = 0; c < K::VALUE_CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < 2 * K::HALVES; n++) {
            float *at = room.sums + (n / 2 * 8 + 2 * t + n % 2) * K::D + 64 * c + 8 * g;
#pragma unroll
            for (int x = 0; x < 8; x++) {
                float before = lh_warp() ? at[x] : 0.0f;
                at[x] = fmaf(shrink[n / 2][n % 2], state.sum[c][x / 2][n / 2][x % 2 * 2 + n % 2], before);
            }
        }
    }
}

/* Reduces the warps' shares to the block's: sums, row maxima and denominators. */
template <typename K>
static __device__ void join_warps(const split_state<K> &state, const split_room<K> &room)
{
    float shrink[K::HALVES][2];
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        float denominator = state.denominator[n / 2][n % 2];
        for (int with = 4; with < LH_WARP; with *= 2) denominator += __shfl_xor_sync(LH_ALL, denominator, with);
        if (lh_lane() < 4) room.row_maxima[lh_warp() * K::ROWS + k] = state.row_max[n / 2][n % 2];
        if (lh_lane() < 4) room.denominators[lh_warp() * K::ROWS + k] = denominator;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        float row_max = room.row_maxima[k], denominator = 0.0f;
        for (int w = 1; w < LH_SPLIT_WARPS; w++) row_max = fmaxf(row_max, room.row_maxima[w * K::ROWS + k]);
        for (int w = 0; w < LH_SPLIT_WARPS; w++)
            denominator = fmaf(lh_weight(room.row_maxima[w * K::ROWS + k], lh_shift(row_max)),
                               room.denominators[w * K::ROWS + k], denominator);
        shrink[n / 2][n % 2] = lh_weight(state.row_max[n / 2][n % 2], lh_shift(row_max));
        if (threadIdx.x < 4) room.joint.row_max[k] = row_max, room.joint.denominator[k] = denominator;
    }
    if constexpr (K::VALUES) {
        for (int w = 0; w < LH_SPLIT_WARPS; w++) {
            if (lh_warp() == w) give_sums<K>(state, shrink, room);
            __syncthreads();
        }
    }
    __syncthreads();
}

/* Writes the results of a head without splits, or of this split. */
template <typename K>
static __device__ void leave(const lh_split_kv &a, const lh_split_place &p, const split_room<K> &room)
{
    int dim = a.form.dim, alone = p.splits == 1, k = (int)threadIdx.x;
    if (k < p.rows && alone) lh_split_tell(a, p, k, room.joint.row_max[k], room.joint.denominator[k]);
    if (k < p.rows && !alone)
        a.parts.sums[(p.unit * a.tile + k) * LH_SPLITS + p.split] =
            make_float2(room.joint.row_max[k], room.joint.denominator[k]);
    for (int n = (int)threadIdx.x; K::VALUES && n < p.rows * dim; n += LH_SPLIT_THREADS) {
        int x = n % dim;
        k = n / dim;
        float sum = room.sums[k * K::D + x];
        int64_t r, i;
        lh_split_row(a, p, k, &r, &i);
        if (alone)
            lh_split_put(a, r * a.o_ld + i * dim + x, sum, room.joint.denominator[k]);
        else
            a.parts.o[((p.unit * LH_SPLITS + p.split) * a.tile + k) * dim + x] = sum;
    }
}

template <typename K>
static __global__ void __launch_bounds__(LH_SPLIT_THREADS, K::BLOCKS)
    split_kernel(const __grid_constant__ lh_split_kv a)
{
    lh_split_place p;
    split_state<K> state = {};
    split_rows<K> rows;
    split_room<K> room = room_of<K>();
    if (!lh_split_find(a, &p)) return;
    stage_queries<K>(a, p, (unsigned *)lh_shared());
    describe_rows<K>(a, p, &rows);
    for (int n = 0; n < 2 * K::HALVES; n++) state.row_max[n / 2][n % 2] = -INFINITY;
    __syncthreads();
    int64_t first = p.first, end = p.end;
    if (K::VALUES && !a.seqs[p.seq].positions) { /* slots are positions, and all rows see the same */
        lh_visible_range visible = rows.visible[0][0];
        int64_t skipped = visible.before + 1 - first;
        if (skipped > 0) first += skipped / LH_SPLIT_STEP * LH_SPLIT_STEP;
        if (end > (int64_t)visible.last + 1) end = (int64_t)visible.last + 1;
    }
    for (int64_t slot = first + lh_warp() * LH_SPLIT_KEYS; slot < end; slot += LH_SPLIT_STEP)
        split_entries<K>(&state, a, p, rows, slot);
    __syncthreads(); /* before queries are overwritten */
    /* Computed again instead of kept: the loop needs the registers. */
    lh_split_find(a, &p);
    join_warps<K>(state, room);
    leave<K>(a, p, room);
    if (p.splits == 1 || !lh_split_is_last(a, p)) return;
    lh_split_merge(a, p, room.joint);
}

#endif
