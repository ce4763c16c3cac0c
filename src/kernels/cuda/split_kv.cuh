/* split_kv.cuh - query rows over all entries of ragged caches (attend_decode, row_lse), split over the entries:
 * flash-decoding.
 *
 * A multiprocessor has one block. The entries of all KV heads of all sequences are cut evenly among the blocks
 * (split_places.cuh), so that heads of any lengths end together; the grid does not depend on lengths, and a CUDA graph
 * can be replayed. Row r of query head i of a KV head is row r * (heads of the group here) + i of its tiles. Pieces
 * leave their row maxima, denominators and sums of values; the last block of a unit to finish combines them in their
 * order. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_CUH

#include "kernels/cuda/q8.cuh"
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
        IS_Q8 = sizeof(T_) == 1,
        ROWS = 8 * HALVES_,
        KEY_CHUNKS = D_ / 32, /* a lane has 8 numbers of each */
        VALUE_CHUNKS = D_ / 64,
        PARTS = lh_parts<T_>::COUNT,
        PITCH =
            D_ + 32, /* distance of rows of queries in shared memory, in bf16: consecutive rows begin 16 banks apart */
        EIGHTS = D_ / 8,                                      /* of a key or value */
        PIECE = IS_Q8 ? 16 : 8,                               /* numbers that a lane copies together */
        KEY_BYTES = LH_SPLIT_KEYS * D_ * (int)sizeof(T_),     /* of a group */
        NOTES = KEY_BYTES * (1 + VALUES_),                    /* where a stage has positions and biases of a group */
        SCALES = NOTES + 2 * LH_SPLIT_KEYS * 4,               /* where it has scales of keys and of values in 8 bits */
        STAGE = SCALES + 2 * IS_Q8 * LH_SPLIT_KEYS * 4,       /* bytes of a stage */
        WARPS = KEY_BYTES <= 4096 ? 8 : 8 * 4096 / KEY_BYTES, /* of a block */
        THREADS = WARPS * LH_WARP
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

/* A lane's part of its rows. With values all rows are one row of the sequence, with a gain of 1 (registers are
 * short). */
template <typename K>
struct split_rows {
    lh_visible_range visible[K::HALVES][2];
    float gain[K::HALVES][2];
    float *logits; /* of the tile's first row and slot 0; NULL: not wanted */
    int count;     /* rows of the tile */
};

/* The 16 entries of a warp from `slot` on, with `left` entries in the piece. at: positions of entries g and 8 + g, -1:
 * not in the piece; bias: their biases. seen: whether rows see 2 t, 2 t + 1, 2 t + 8, 2 t + 9; all: whether they see
 * all entries of the piece. */
struct split_entry {
    int slot, left, at[2], seen[4], all;
    float bias[2], k_scale[2], v_scale[2]; /* scales of 8 bits; v_scale: 0 for an invisible entry */
};

/* A lane's numbers of the queries: of row warp + WARPS r of the tile, from number OF_LANE * lane on. */
template <typename K>
struct split_queries {
    enum { OF_LANE = K::D / LH_WARP, ROWS = K::ROWS / K::WARPS };
    float row[ROWS][OF_LANE];
};

/* Zeros after rows and dimensions. */
template <typename K>
static __device__ __forceinline__ void load_queries(split_queries<K> *queries, const lh_split_kv &a,
                                                    const lh_split_piece &p)
{
    typedef split_queries<K> Q;
#pragma unroll
    for (int n = 0; n < Q::ROWS; n++) {
        const int k = lh_warp() + n * K::WARPS, is_row = k < p.of.rows, first = Q::OF_LANE * lh_lane();
        int64_t r, i;
        lh_split_row(a, p, is_row ? k : 0, &r, &i);
        const float *q = a.q + r * a.q_ld + i * a.form.dim + first;
#pragma unroll
        for (int x = 0; x < Q::OF_LANE; x++) queries->row[n][x] = is_row && first + x < a.form.dim ? q[x] : 0.0f;
    }
}

/* Queries of the tile to shared memory: [SCAN_PARTS, ROWS, PITCH] bf16; for keys in 8 bits transformed (q8.h). */
template <typename K>
static __device__ __forceinline__ void stage_queries(split_queries<K> *queries, unsigned *to, int dim)
{
    typedef split_queries<K> Q;
    enum { PITCH = K::PITCH / 2, PAIRS = Q::OF_LANE / 2 };
#pragma unroll
    for (int n = 0; n < Q::ROWS; n++) {
        if constexpr (K::IS_Q8) lh_hadamard_inverse(queries->row[n], dim);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const int k = lh_warp() + n * K::WARPS, at = PAIRS * lh_lane() + i;
            unsigned word[SCAN_PARTS];
            lh_cut_pair<SCAN_PARTS>(word, queries->row[n][2 * i], queries->row[n][2 * i + 1]);
#pragma unroll
            for (int part = 0; part < SCAN_PARTS; part++) to[(part * K::ROWS + k) * PITCH + at] = word[part];
        }
    }
}

/* Rows after the tile's last one see the same entries as the last one; their results are not used. */
template <typename K>
static __device__ void describe_rows(const lh_split_kv &a, const lh_split_plan &plan, const lh_split_piece &p,
                                     split_rows<K> *rows)
{
    const lh_row_logits &out = a.logits[p.of.seq];
    rows->logits = K::VALUES && out.at ? out.at + (p.of.i0 + p.of.row0) * out.ld : NULL;
    rows->count = p.of.rows;
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        int64_t r, i;
        rows->visible[n / 2][n % 2] = plan.units[p.unit].visible;
        rows->gain[n / 2][n % 2] = 1.0f;
        if (K::VALUES) continue;
        lh_split_row(a, p, min(k, p.of.rows - 1), &r, &i);
        rows->visible[n / 2][n % 2] = lh_visible_range_of(a.positions, a.until, a.logit.window, r);
        if (a.gains) rows->gain[n / 2][n % 2] = a.gains[r];
    }
}

/* ---- the ring of a warp ----
 *
 * A stage has the keys, then the values of a group, in eights of numbers: eight i of entry r at place i ^ place_of(r),
 * so that the lanes of an access of 16 bytes (8 bytes of q8) use different banks, across the entries of keys and of
 * values. Two eights of q8 that are copied together stay neighbours. */

template <typename K>
static __device__ __forceinline__ int place_of(int r)
{
    if (!K::IS_Q8) return (r & 6) ^ (r & 1) << 2;
    return K::EIGHTS == 8 ? (r & 2) << 1 : ((r & 2) << 2) | (((r >> 2) ^ r) & 1) << 2;
}

template <typename K>
static __device__ __forceinline__ lh_eight<typename K::T> *eight_at(const unsigned char *rows, int r, int i)
{
    return (lh_eight<typename K::T> *)rows + r * K::EIGHTS + (i ^ place_of<K>(r));
}

/* The group that a warp copied last; before the first one a piece without entries. */
struct split_cursor {
    lh_split_piece piece;
    int slot;
};

/* The warp's next group, in this piece or a later one. Returns 0 if there is none. */
template <typename K>
static __device__ __forceinline__ int next_group(split_cursor *c, const lh_split_kv &a, const lh_split_plan &plan)
{
    c->slot += K::WARPS * LH_SPLIT_KEYS;
    while (c->slot >= c->piece.end && c->piece.next < plan.end) {
        c->piece = lh_split_piece_at(a, plan, c->piece.next);
        c->slot = c->piece.first + lh_warp() * LH_SPLIT_KEYS;
    }
    return c->slot < c->piece.end;
}

/* Returns 1 if entries that the kernel before this one stores may be in the group, or in lines of L1 that copies of
 * rows that are not aligned read. */
static __device__ __forceinline__ int is_newest(const lh_split_kv &a, const lh_split_plan &plan, const split_cursor &c)
{
    return !a.form.wide || c.slot + LH_SPLIT_KEYS > plan.units[c.piece.unit].end - a.fresh;
}

/* Copies 16 keys or values from `from` on to a stage: those after the first `left`, and numbers after `dim`, become
 * 0. */
template <typename K>
static __device__ __forceinline__ void copy_rows(unsigned char *to, const typename K::T *from, int left, lh_form form)
{
    typedef typename K::T T;
    enum { PIECES = K::D / K::PIECE, AT_ONCE = LH_WARP / PIECES, EACH = K::PIECE / 8 };
    const int i = lh_lane() % PIECES, row = lh_lane() / PIECES, more = form.dim - K::PIECE * i;
    const T *x = from + row * form.dim + K::PIECE * i;
    if (form.wide) {
#pragma unroll
        for (int r = 0; r < LH_SPLIT_KEYS; r += AT_ONCE) {
#pragma unroll
            for (int b = 0; b < K::PIECE * (int)sizeof(T); b += 16)
                lh_copy_async((unsigned char *)eight_at<K>(to, r + row, EACH * i) + b,
                              (const unsigned char *)(x + r * form.dim) + b, more > 0 && r + row < left ? 16 : 0);
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < LH_SPLIT_KEYS; r += AT_ONCE) {
#pragma unroll
            for (int e = 0; e < EACH; e++)
                lh_load(eight_at<K>(to, r + row, EACH * i + e), x + r * form.dim + 8 * e,
                        r + row < left ? more - 8 * e : 0, 0);
        }
    }
}

template <typename K>
static __device__ __forceinline__ void copy_group(unsigned char *stage, const lh_split_kv &a, const lh_split_plan &plan,
                                                  const split_cursor &c)
{
    typedef typename K::T T;
    const lh_ragged &kv = a.seqs[c.piece.of.seq];
    const lh_split_unit &u = plan.units[c.piece.unit];
    const int shared = c.slot < u.shared, left = min(c.piece.end - c.slot, (int)LH_SPLIT_KEYS);
    const int64_t at = ((shared ? kv.parent.offset[c.piece.of.head] : u.slots) + c.slot) * a.form.dim;
    copy_rows<K>(stage, (const T *)(shared ? kv.parent.k : kv.k) + at, left, a.form);
    if (K::VALUES) copy_rows<K>(stage + K::KEY_BYTES, (const T *)(shared ? kv.parent.v : kv.v) + at, left, a.form);
}

/* Copies positions, biases and scales of the group, through L1: only after the wait, so that no line is older. */
template <typename K>
static __device__ __forceinline__ void copy_notes(unsigned char *stage, const lh_split_kv &a, const lh_split_plan &plan,
                                                  const split_cursor &c)
{
    const lh_ragged &kv = a.seqs[c.piece.of.seq];
    const lh_split_unit &u = plan.units[c.piece.unit];
    const int shared = c.slot < u.shared, j = lh_lane() % LH_SPLIT_KEYS;
    const void *notes = shared ? kv.parent.positions : kv.positions;
    if (j < lh_lane()) notes = shared ? kv.parent.bias : kv.bias;
    if (c.slot + j >= c.piece.end) return;
    const int64_t slots = (shared ? kv.parent.offset[c.piece.of.head] : u.slots) + c.slot;
    if (notes) lh_copy_async_word(stage + K::NOTES + 4 * lh_lane(), (const uint32_t *)notes + slots + j);
    if constexpr (K::IS_Q8) {
        const float *scales = shared ? kv.parent.k_scale : kv.k_scale;
        if (j < lh_lane()) scales = shared ? kv.parent.v_scale : kv.v_scale;
        lh_copy_async_word(stage + K::SCALES + 4 * lh_lane(), scales + slots + j);
    }
}

/* Waits for the oldest of the copies of this warp, one group a stage. */
static __device__ __forceinline__ void wait_for_stage(int stages)
{
    if (stages == 2)
        lh_copy_wait<1>();
    else
        lh_copy_wait<0>();
    __syncwarp();
}

/* ---- logits of a warp's entries ---- */

/* The entries from `slot` on, in a stage, without their visibility. */
template <typename K>
static __device__ __forceinline__ void find_entries(split_entry *entry, const lh_split_kv &a, const lh_split_plan &plan,
                                                    const lh_split_piece &p, int slot, const unsigned char *stage)
{
    const lh_ragged &kv = a.seqs[p.of.seq];
    const int shared = slot < plan.units[p.unit].shared, g = lh_lane() / 4;
    const int has_positions = (shared ? kv.parent.positions : kv.positions) != NULL;
    const int has_bias = (shared ? kv.parent.bias : kv.bias) != NULL;
    const int32_t *positions = (const int32_t *)(stage + K::NOTES);
    const float *bias = (const float *)(positions + LH_SPLIT_KEYS), *scales = (const float *)(stage + K::SCALES);
    entry->slot = slot;
    entry->left = min(p.end - slot, (int)LH_SPLIT_KEYS);
#pragma unroll
    for (int n = 0; n < 2; n++) {
        int j = 8 * n + g;
        entry->at[n] = j >= entry->left ? -1 : has_positions ? positions[j] : slot + j;
        entry->bias[n] = j < entry->left && has_bias ? bias[j] : 0.0f;
        entry->k_scale[n] = K::IS_Q8 && j < entry->left ? scales[j] : 0.0f;
        entry->v_scale[n] = K::IS_Q8 && j < entry->left ? scales[LH_SPLIT_KEYS + j] : 0.0f;
    }
}

/* Returns 1 if a row of the warp sees one of the entries. If values are summed all rows see the same entries. */
template <typename K>
static __device__ __forceinline__ int look(split_entry *entry, const split_rows<K> &rows)
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
        if (!any) entry->v_scale[n] = 0.0f; /* times a weight of 0: it may not be finite */
    }
#pragma unroll
    for (int e = 0; e < 4; e++) entry->seen[e] = seen[e / 2] >> 4 * (2 * t + e % 2) & 1;
    entry->all = all == LH_ALL;
    return (seen[0] | seen[1]) != 0;
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

/* s: q.k of entry g with the lane's rows, then of entry 8 + g. */
template <typename K>
static __device__ __forceinline__ void products(float s[K::HALVES][4], const unsigned char *stage,
                                                const unsigned char *queries)
{
    const uint4 *row = (const uint4 *)queries + lh_lane() / 4 * (K::PITCH / 8) + lh_lane() % 4;
    float rest[K::HALVES][4] = {};
#pragma unroll
    for (int c = 0; c < K::KEY_CHUNKS; c++) {
        lh_eight<typename K::T> key[2];
        uint4 q[K::HALVES][SCAN_PARTS];
#pragma unroll
        for (int n = 0; n < 2; n++) key[n] = *eight_at<K>(stage, 8 * n + lh_lane() / 4, 4 * c + lh_lane() % 4);
#pragma unroll
        for (int part = 0; part < SCAN_PARTS; part++) {
#pragma unroll
            for (int h = 0; h < K::HALVES; h++) q[h][part] = row[(part * K::ROWS + 8 * h) * (K::PITCH / 8) + 4 * c];
        }
        add_chunk<K>(s, rest, key, q);
    }
    lh_add_all<4 * K::HALVES>(&s[0][0], &rest[0][0]);
}

/* Turns products into logits, with -inf for entries that a row does not see. */
template <typename K>
static __device__ __forceinline__ void mask(float s[K::HALVES][4], const lh_split_kv &a, const split_rows<K> &rows,
                                            const split_entry &entry, int seq)
{
    const int64_t ld = a.logits[seq].ld;
#pragma unroll
    for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float dot = K::IS_Q8 ? s[h][i] * entry.k_scale[i / 2] : s[h][i];
            const float x = lh_capped(dot * a.logit.scale, a.logit.softcap);
            const int at = entry.at[i / 2], k = 8 * h + lh_lane() % 4 * 2 + i % 2;
            if (rows.logits && at >= 0 && k < rows.count)
                rows.logits[k * ld + entry.slot + i / 2 * 8 + lh_lane() / 4] = x;
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

/* Weights of values become weights of their codes. */
template <typename K>
static __device__ __forceinline__ void scale_weights(float s[K::HALVES][4], const split_entry &entry)
{
#pragma unroll
    for (int h = 0; h < K::HALVES; h++) {
#pragma unroll
        for (int i = 0; i < 4; i++) s[h][i] *= entry.v_scale[i / 2];
    }
}

/* s: weights. values: of the group. */
template <typename K>
static __device__ __forceinline__ void add_weighed(split_state<K> *state, const float s[K::HALVES][4],
                                                   const unsigned char *values, const split_entry &entry)
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
        lh_eight<typename K::T> v[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = *eight_at<K>(values, e / 2 * 8 + e % 2 + 2 * (lh_lane() % 4), 8 * c + lh_lane() / 4);
        if (!entry.all) { /* memory of invisible entries may hold numbers that are not finite */
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (!entry.seen[e]) lh_zero(&v[e]);
        }
        add_values<K>(state->sum[c], v, weights);
    }
}

/* A group of entries, in a stage. */
template <typename K>
static __device__ __forceinline__ void add_group(split_state<K> *state, const lh_split_kv &a, int seq,
                                                 const split_rows<K> &rows, split_entry *entry,
                                                 const unsigned char *stage, const unsigned char *queries)
{
    float s[K::HALVES][4] = {};
    if (!look<K>(entry, rows)) return;
    products<K>(s, stage, queries);
    mask<K>(s, a, rows, *entry, seq);
    weigh<K>(s, state);
    if constexpr (K::IS_Q8) scale_weights<K>(s, *entry);
    if constexpr (K::VALUES) add_weighed<K>(state, s, stage + K::KEY_BYTES, *entry);
}

/* ---- the kernel ----
 *
 * Entries times rows of a tile on the tensor cores, for any type of cache (queries and weights in three parts: nothing
 * is rounded to bf16), with every byte of the cache read once for up to 16 rows.
 *
 * A warp takes 16 entries at a time, which come through its ring. Entries are the 16 rows of a product and query rows
 * its 8 columns, so a group of fewer than 8 heads wastes only the missing columns. Eight warps have up to 128 KiB in
 * flight on a multiprocessor, four times the memory's latency-bandwidth product. With a third stage queries and results
 * wait longer behind entries: attention of 16 sequences of 1,024 entries takes 36 us instead of 35 (H100). */

/* Shared memory of a block: rings, queries, sums of the warps (then weights of pieces), row maxima and denominators of
 * the warps and of all pieces, and the units. */
template <typename K>
struct split_room {
    enum {
        PITCH = K::D + 4, /* of sums: fewer lanes share banks */
        QUERY_BYTES = 2 * SCAN_PARTS * K::ROWS * K::PITCH,
        SUMS = K::VALUES ? K::WARPS * PITCH : 0, /* of a row */
        ROW_BYTES = 4 * ((int)SUMS > (int)LH_SPLIT_BLOCKS ? (int)SUMS : (int)LH_SPLIT_BLOCKS) + 4 * (2 * K::WARPS + 2)
    };
    unsigned char *ring; /* of this warp */
    unsigned char *queries;
    float *sums;                      /* [WARPS, tile, PITCH] */
    float *row_maxima, *denominators; /* [WARPS, tile] */
    lh_split_joint joint;
    lh_split_unit *units; /* [units + 1] */
};

/* Bytes of a block. */
template <typename K>
static __host__ __device__ __forceinline__ int64_t room_bytes(int stages, int tile, int64_t units)
{
    typedef split_room<K> R;
    return K::WARPS * stages * K::STAGE + R::QUERY_BYTES + (tile * R::ROW_BYTES + 15) / 16 * 16 +
           (units + 1) * (int64_t)sizeof(lh_split_unit);
}

template <typename K>
static __device__ __forceinline__ split_room<K> room_of(const lh_split_kv &a)
{
    enum { FLOATS = split_room<K>::ROW_BYTES / 4 - (2 * K::WARPS + 2) };
    split_room<K> room;
    room.ring = lh_shared() + lh_warp() * a.stages * K::STAGE;
    room.queries = lh_shared() + K::WARPS * a.stages * K::STAGE;
    room.sums = (float *)(room.queries + split_room<K>::QUERY_BYTES);
    room.row_maxima = room.sums + a.tile * FLOATS;
    room.denominators = room.row_maxima + K::WARPS * a.tile;
    float *row_max = room.denominators + K::WARPS * a.tile;
    room.joint = lh_split_joint{row_max, row_max + a.tile, room.sums};
    room.units = (lh_split_unit *)((unsigned char *)room.sums + (a.tile * split_room<K>::ROW_BYTES + 15) / 16 * 16);
    return room;
}

/* The share of a warp. */
template <typename K>
static __device__ void give_share(const split_state<K> &state, const split_room<K> &room, int tile)
{
    int g = lh_lane() / 4, t = lh_lane() % 4;
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int row = n / 2 * 8 + t * 2 + n % 2, k = lh_warp() * tile + row;
        float denominator = state.denominator[n / 2][n % 2];
        for (int with = 4; with < LH_WARP; with *= 2) denominator += __shfl_xor_sync(LH_ALL, denominator, with);
        if (row >= tile) continue;
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
template <typename K>
struct split_total {
    float row_max, denominator, weights[K::WARPS];
};

template <typename K>
static __device__ __forceinline__ split_total<K> total_of(const split_room<K> &room, int tile, int k)
{
    split_total<K> total = {-INFINITY, 0.0f, {}};
#pragma unroll
    for (int w = 0; w < K::WARPS; w++) total.row_max = fmaxf(total.row_max, room.row_maxima[w * tile + k]);
#pragma unroll
    for (int w = 0; w < K::WARPS; w++) {
        total.weights[w] = lh_weight(room.row_maxima[w * tile + k], lh_shift(total.row_max));
        total.denominator = fmaf(total.weights[w], room.denominators[w * tile + k], total.denominator);
    }
    return total;
}

/* Writes the results of a unit of one piece, or of this piece: V numbers per thread. */
template <typename K, typename V>
static __device__ void leave_sums(const lh_split_kv &a, const lh_split_piece &p, const split_room<K> &room)
{
    const int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide;
    for (int n = (int)threadIdx.x; n < p.of.rows * per_row; n += K::THREADS) {
        const lh_split_numbers<V> y(a, p, n);
        const split_total<K> total = total_of<K>(room, a.tile, y.row);
        V sum = {};
#pragma unroll
        for (int w = 0; w < K::WARPS; w++)
            lh_add_weighted(&sum, total.weights[w],
                            *(const V *)(room.sums + (w * a.tile + y.row) * split_room<K>::PITCH + n % per_row * wide));
        if (p.pieces == 1)
            lh_split_put(a, y.at, sum, total.denominator);
        else
            *(V *)(y.sum + p.piece * y.next) = sum;
    }
}

template <typename K>
static __device__ void leave(const lh_split_kv &a, const lh_split_piece &p, const split_room<K> &room)
{
    const int k = (int)threadIdx.x;
    if (k < p.of.rows) {
        const split_total<K> total = total_of<K>(room, a.tile, k);
        if (p.pieces == 1)
            lh_split_tell(a, p, k, total.row_max, total.denominator);
        else
            a.parts.sums[(int64_t)(p.part0 + p.piece) * a.tile + k] = make_float2(total.row_max, total.denominator);
    }
    if constexpr (K::VALUES) {
        if (a.form.dim % 4 == 0)
            leave_sums<K, float4>(a, p, room);
        else
            leave_sums<K, float>(a, p, room);
    }
}

/* Combines the pieces of a unit. */
template <typename K>
static __device__ void combine(const lh_split_kv &a, const lh_split_piece &p, const split_room<K> &room)
{
    if constexpr (K::VALUES) {
        if (a.form.dim % 4 == 0)
            lh_split_merge<K, float4>(a, p, room.joint);
        else
            lh_split_merge<K, float>(a, p, room.joint);
    } else {
        lh_split_weigh_all(a, p, room.joint);
    }
    if ((int)threadIdx.x < p.of.rows)
        lh_split_tell(a, p, (int)threadIdx.x, room.joint.row_max[threadIdx.x], room.joint.denominator[threadIdx.x]);
}

/* The place of a warp in its ring. */
struct split_ring {
    split_cursor copied;
    int stage;
};

/* The entries of a piece, by the block; leaves the shares of its warps. Copies go on with later pieces. */
template <typename K>
static __device__ __forceinline__ void attend_piece(const lh_split_kv &a, const lh_split_plan &plan,
                                                    const lh_split_piece &p, const split_room<K> &room,
                                                    split_ring *ring)
{
    split_state<K> state = {};
    split_rows<K> rows;
    describe_rows<K>(a, plan, p, &rows);
    for (int n = 0; n < 2 * K::HALVES; n++) state.row_max[n / 2][n % 2] = -INFINITY;
    for (int slot = p.first + lh_warp() * LH_SPLIT_KEYS; slot < p.end; slot += K::WARPS * LH_SPLIT_KEYS) {
        unsigned char *stage = room.ring + ring->stage * K::STAGE;
        split_entry entry;
        wait_for_stage(a.stages);
        find_entries<K>(&entry, a, plan, p, slot, stage);
        add_group<K>(&state, a, p.of.seq, rows, &entry, stage, room.queries);
        __syncwarp();
        if (next_group<K>(&ring->copied, a, plan)) {
            copy_group<K>(stage, a, plan, ring->copied);
            copy_notes<K>(stage, a, plan, ring->copied);
        }
        lh_copy_commit();
        if (++ring->stage == a.stages) ring->stage = 0;
    }
    give_share<K>(state, room, a.tile);
    __syncthreads();
}

/* With fresh entries, lengths and the first groups without them are read before the wait: no earlier kernel of the step
 * writes them. Other loads that depend on one another: queries, positions and fresh entries; an atomic addition;
 * results of all pieces. The queries of a later piece are loaded before the results of this one. */
template <typename K>
static __global__ void __launch_bounds__(K::THREADS, 1) split_kernel(const __grid_constant__ lh_split_kv a)
{
    const split_room<K> room = room_of<K>(a);
    lh_let_next_start();
    if (!a.fresh) lh_wait_before();
    const lh_split_plan plan = lh_split_plan_of(a, room.units);
    int at = plan.first;
    split_queries<K> queries;
    lh_split_piece p = {};
    if (at < plan.end) p = lh_split_piece_at(a, plan, at);
    split_ring ring;
    for (int is_last = 0; is_last < 2; is_last++) { /* groups without fresh entries, then the others */
        ring = {};
        ring.copied.piece.next = plan.first;
        for (int i = 0; i < a.stages; i++) {
            const int is_group = next_group<K>(&ring.copied, a, plan);
            unsigned char *stage = room.ring + i * K::STAGE;
            if (is_group && is_newest(a, plan, ring.copied) == is_last) copy_group<K>(stage, a, plan, ring.copied);
            if (is_group && is_last) copy_notes<K>(stage, a, plan, ring.copied);
            if (is_last) lh_copy_commit();
        }
        if (a.fresh && !is_last) lh_wait_before();
    }
    const int raises = a.fresh && lh_split_read_all(a);
    if (at < plan.end) load_queries<K>(&queries, a, p);
    while (at < plan.end) {
        const lh_split_piece now = p;
        stage_queries<K>(&queries, (unsigned *)room.queries, a.form.dim);
        __syncthreads();
        attend_piece<K>(a, plan, now, room, &ring);
        at = now.next;
        if (at < plan.end) { /* loads before the results of this piece */
            p = lh_split_piece_at(a, plan, at);
            load_queries<K>(&queries, a, p);
        }
        leave<K>(a, now, room);
        if (now.pieces > 1 && lh_split_is_last(a, now)) combine<K>(a, now, room);
        __syncthreads(); /* before queries and sums of the next piece */
    }
    lh_copy_wait<0>();
    if (a.fresh) lh_split_raise(a, raises);
}

#endif
