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

#include "kernels/cuda/split_places.cuh"

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
        SMALL = sizeof(T_) == 2 && D_ <= 128,      /* true if there are registers for all keys and values */
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

/* A thread's pairs of numbers of the queries: pair n of the tile, from threadIdx.x on in steps of the block. */
template <typename K>
struct split_queries {
    enum { PAIRS = K::D / 2, COUNT = K::ROWS * PAIRS / LH_SPLIT_THREADS };
    float pair[COUNT][2];
};

/* Zeros after rows and dimensions. */
template <typename K>
static __device__ __forceinline__ void load_queries(split_queries<K> *queries, const lh_split_kv &a,
                                                    const lh_split_place &p)
{
    enum { PAIRS = split_queries<K>::PAIRS };
#pragma unroll
    for (int m = 0; m < split_queries<K>::COUNT; m++) {
        int n = (int)threadIdx.x + m * LH_SPLIT_THREADS, k = n / PAIRS, x = n % PAIRS * 2, is_row = k < p.rows;
        int64_t r, i;
        lh_split_row(a, p, is_row ? k : 0, &r, &i);
        const float *q = a.q + r * a.q_ld + i * a.form.dim + x;
        queries->pair[m][0] = is_row && x < a.form.dim ? q[0] : 0.0f;
        queries->pair[m][1] = is_row && x + 1 < a.form.dim ? q[1] : 0.0f;
    }
}

/* Queries of the tile to shared memory: [SCAN_PARTS, ROWS, PITCH] bf16. */
template <typename K>
static __device__ __forceinline__ void stage_queries(const split_queries<K> &queries, unsigned *to)
{
    enum { PAIRS = split_queries<K>::PAIRS, PITCH = K::PITCH / 2 };
#pragma unroll
    for (int m = 0; m < split_queries<K>::COUNT; m++) {
        int n = (int)threadIdx.x + m * LH_SPLIT_THREADS;
        unsigned word[SCAN_PARTS];
        lh_cut_pair<SCAN_PARTS>(word, queries.pair[m][0], queries.pair[m][1]);
#pragma unroll
        for (int part = 0; part < SCAN_PARTS; part++) to[(part * K::ROWS + n / PAIRS) * PITCH + n % PAIRS] = word[part];
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
        if (K::VALUES) r = p.seq; /* the only one: registers are short */
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

/* s: q.k of entry g with the lane's rows, then of entry 8 + g. keys: all of them, if they were loaded before. */
template <typename K>
static __device__ __forceinline__ void products(float s[K::HALVES][4], const lh_split_kv &a,
                                                lh_eight<typename K::T> keys[K::STAGE][2], const split_entry<K> &entry)
{
    const uint4 *queries = (const uint4 *)lh_shared() + lh_lane() / 4 * (K::PITCH / 8) + lh_lane() % 4;
    float rest[K::HALVES][4] = {};
#pragma unroll
    for (int from = 0; from < K::KEY_CHUNKS; from += K::STAGE) {
        if (from || !K::SMALL) load_keys<K>(keys, a, entry, from);
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

/* The warp's 16 entries of a round, with keys and values: their loads start together where registers allow. */
template <typename K>
struct split_round {
    split_entry<K> entry;
    int is_unseen; /* known already: no row sees any of them, and nothing was loaded */
    lh_eight<typename K::T> keys[K::STAGE][2], values[K::VALUE_CHUNKS][4];
};

/* Starts the round of the entries from `slot` on. A window may hide many entries; with no window few entries are
 * invisible, and loads need not wait for positions. */
template <typename K>
static __device__ __forceinline__ void start_round(split_round<K> *round, const lh_split_kv &a, const lh_split_place &p,
                                                   const split_rows<K> &rows, int64_t slot)
{
    find_entries<K>(&round->entry, a, p, slot);
    round->is_unseen = a.logit.window > 0 && !look<K>(&round->entry, rows);
    if (round->is_unseen) return;
    if constexpr (K::SMALL) {
        load_keys<K>(round->keys, a, round->entry, 0);
#pragma unroll
        for (int c = 0; c < K::VALUE_CHUNKS && K::VALUES; c++) load_values<K>(round->values[c], a, round->entry, c);
    }
}

template <typename K>
static __device__ __forceinline__ void end_round(split_state<K> *state, const lh_split_kv &a, const split_rows<K> &rows,
                                                 split_round<K> *round)
{
    float s[K::HALVES][4] = {};
    if (round->is_unseen || (a.logit.window <= 0 && !look<K>(&round->entry, rows))) return;
    products<K>(s, a, round->keys, round->entry);
    mask<K>(s, a, rows, round->entry);
    weigh<K>(s, state);
    if constexpr (K::VALUES) add_weighed<K>(state, a, s, round->values, round->entry);
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

/* Shared memory: queries while entries are read, then sums of the warps, then weights of splits; and the row maxima and
 * denominators of the warps, and of all splits. */
template <typename K>
struct split_room {
    enum {
        PITCH = K::D + 4, /* of sums: fewer lanes share banks */
        QUERY_BYTES = 2 * SCAN_PARTS * K::ROWS * K::PITCH,
        SUM_BYTES = K::VALUES ? 4 * LH_SPLIT_WARPS * K::ROWS * PITCH : 0,
        WEIGHT_BYTES = 4 * K::ROWS * LH_SPLITS,
        MORE_BYTES = (int)SUM_BYTES > (int)WEIGHT_BYTES ? (int)SUM_BYTES : (int)WEIGHT_BYTES,
        FIRST = (int)QUERY_BYTES > (int)MORE_BYTES ? (int)QUERY_BYTES : (int)MORE_BYTES,
        BYTES = FIRST + 4 * K::ROWS * (2 * LH_SPLIT_WARPS + 2)
    };
    float *sums;                      /* [LH_SPLIT_WARPS, ROWS, PITCH] */
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

/* The share of a warp. */
template <typename K>
static __device__ void give_share(const split_state<K> &state, const split_room<K> &room)
{
    int g = lh_lane() / 4, t = lh_lane() % 4;
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = lh_warp() * K::ROWS + n / 2 * 8 + t * 2 + n % 2;
        float denominator = state.denominator[n / 2][n % 2];
        for (int with = 4; with < LH_WARP; with *= 2) denominator += __shfl_xor_sync(LH_ALL, denominator, with);
        if (g == 0) room.row_maxima[k] = state.row_max[n / 2][n % 2];
        if (g == 0) room.denominators[k] = denominator;
        if constexpr (K::VALUES) {
#pragma unroll
            for (int x = 0; x < 4 * K::VALUE_CHUNKS; x++) {
                const float(*sum)[4] = &state.sum[x / 4][x % 4][n / 2];
                *(float2 *)(room.sums + k * split_room<K>::PITCH + x / 4 * 64 + 8 * g + x % 4 * 2) =
                    make_float2((*sum)[n % 2], (*sum)[2 + n % 2]);
            }
        }
    }
}

/* A row over all warps of the block, and the factors of their sums. */
typedef struct split_total {
    float row_max, denominator, weights[LH_SPLIT_WARPS];
} split_total;

template <typename K>
static __device__ __forceinline__ split_total total_of(const split_room<K> &room, int k)
{
    split_total total = {-INFINITY, 0.0f, {}};
#pragma unroll
    for (int w = 0; w < LH_SPLIT_WARPS; w++) total.row_max = fmaxf(total.row_max, room.row_maxima[w * K::ROWS + k]);
#pragma unroll
    for (int w = 0; w < LH_SPLIT_WARPS; w++) {
        total.weights[w] = lh_weight(room.row_maxima[w * K::ROWS + k], lh_shift(total.row_max));
        total.denominator = fmaf(total.weights[w], room.denominators[w * K::ROWS + k], total.denominator);
    }
    return total;
}

/* Writes the results of a head without splits, or of this split: V numbers per thread. */
template <typename K, typename V>
static __device__ void leave_sums(const lh_split_kv &a, const lh_split_place &p, const split_room<K> &room)
{
    const int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide;
    for (int n = (int)threadIdx.x; n < p.rows * per_row; n += LH_SPLIT_THREADS) {
        const lh_split_numbers<V> y(a, p, n);
        const split_total total = total_of<K>(room, y.row);
        V sum = {};
#pragma unroll
        for (int w = 0; w < LH_SPLIT_WARPS; w++)
            lh_add_weighted(
                &sum, total.weights[w],
                *(const V *)(room.sums + (w * K::ROWS + y.row) * split_room<K>::PITCH + n % per_row * wide));
        if (p.splits == 1)
            lh_split_put(a, y.at, sum, total.denominator);
        else
            *(V *)(y.sum + p.split * y.next) = sum;
    }
}

template <typename K>
static __device__ void leave(const lh_split_kv &a, const lh_split_place &p, const split_room<K> &room)
{
    const int k = (int)threadIdx.x;
    if (k < p.rows) {
        const split_total total = total_of<K>(room, k);
        if (p.splits == 1)
            lh_split_tell(a, p, k, total.row_max, total.denominator);
        else
            a.parts.sums[(p.unit * a.tile + k) * LH_SPLITS + p.split] = make_float2(total.row_max, total.denominator);
    }
    if constexpr (K::VALUES) {
        if (a.form.dim % 4 == 0)
            leave_sums<K, float4>(a, p, room);
        else
            leave_sums<K, float>(a, p, room);
    }
}

/* The entries of the split that rows may see, if slots are positions and all rows see the same. */
template <typename K>
static __device__ __forceinline__ void narrow(const lh_split_kv &a, const split_rows<K> &rows, lh_split_place *p)
{
    if (!K::VALUES || a.seqs[p->seq].positions) return;
    const lh_visible_range visible = rows.visible[0][0];
    const int64_t skipped = visible.before + 1 - p->first;
    if (skipped > 0) p->first += skipped / LH_SPLIT_STEP * LH_SPLIT_STEP;
    if (p->end > (int64_t)visible.last + 1) p->end = (int64_t)visible.last + 1;
}

/* The kernel mostly waits for loads, and where a head has splits these depend on one another: lengths, queries and
 * positions; keys and values; an atomic addition; results of all splits. */
template <typename K>
static __global__ void __launch_bounds__(LH_SPLIT_THREADS, K::BLOCKS)
    split_kernel(const __grid_constant__ lh_split_kv a)
{
    lh_split_place p;
    split_state<K> state = {};
    split_rows<K> rows;
    split_round<K> round = {};
    split_queries<K> queries;
    split_room<K> room = room_of<K>();
    lh_let_next_start();
    lh_wait_before();
    lh_split_find(a, &p);
    load_queries<K>(&queries, a, p);
    describe_rows<K>(a, p, &rows);
    if (!lh_split_cut(a, &p)) return;
    narrow<K>(a, rows, &p);
    int64_t slot = p.first + lh_warp() * LH_SPLIT_KEYS;
    if (K::SMALL && slot < p.end) start_round<K>(&round, a, p, rows, slot);
    stage_queries<K>(queries, (unsigned *)lh_shared());
    for (int n = 0; n < 2 * K::HALVES; n++) state.row_max[n / 2][n % 2] = -INFINITY;
    __syncthreads();
    while (slot < p.end) {
        if (!K::SMALL) start_round<K>(&round, a, p, rows, slot);
        end_round<K>(&state, a, rows, &round);
        slot += LH_SPLIT_STEP;
        if (K::SMALL && slot < p.end) start_round<K>(&round, a, p, rows, slot);
    }
    __syncthreads(); /* before queries are overwritten */
    /* Computed again instead of kept: the loop needs the registers. */
    lh_split_find(a, &p);
    lh_split_cut(a, &p);
    give_share<K>(state, room);
    __syncthreads();
    leave<K>(a, p, room);
    if (p.splits == 1 || !lh_split_is_last(a, p)) return;
    if constexpr (K::VALUES) {
        if (a.form.dim % 4 == 0)
            lh_split_merge<K, float4>(a, p, room.joint);
        else
            lh_split_merge<K, float>(a, p, room.joint);
    } else {
        lh_split_weigh_all(a, p, room.joint);
    }
    if ((int)threadIdx.x < p.rows)
        lh_split_tell(a, p, (int)threadIdx.x, room.joint.row_max[threadIdx.x], room.joint.denominator[threadIdx.x]);
}

#endif
