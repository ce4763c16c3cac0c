/* split_kv_logits.cuh - split-KV attention: the logits of a warp's entries. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_LOGITS_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_LOGITS_CUH

#include "kernels/cuda/split_kv_rows.cuh"

/* The entries from `slot` on, but for what rows see of them: what is loaded does not wait for positions. */
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

/* Returns whether any row of the warp sees one of the entries. Where values are summed all rows see the same. */
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

/* From products to logits, -inf where a row does not see the entry. */
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

#endif
