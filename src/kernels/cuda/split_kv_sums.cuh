/* split_kv_sums.cuh - split-KV attention: logits become weights, and weights times values sums. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_SUMS_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_SUMS_CUH

#include "kernels/cuda/split_kv_logits.cuh"

/* Logits become weights; denominators and sums so far are brought to the new highest logit. */
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

/* s: weights. values: the first chunks, where they are there already. */
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
        if (!entry.all) { /* 0 times what is left in entries that are not seen may be no number */
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (!entry.seen[e]) lh_zero(&values[c][e]);
        }
        add_values<K>(state->sum[c], values[c], weights);
    }
}

/* The warp's 16 entries from `slot` on. */
template <typename K>
static __device__ __forceinline__ void split_entries(split_state<K> *state, const lh_split_kv &a,
                                                     const lh_split_place &p, const split_rows<K> &rows, int64_t slot)
{
    split_entry<K> entry = {};
    lh_eight<typename K::T> keys[K::STAGE][2], values[K::VALUE_CHUNKS][4] = {};
    float s[K::HALVES][4] = {};
    find_entries<K>(&entry, a, p, slot);
    /* With a window there may be much that no row sees; without, little, and loads need not wait for positions. */
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

#endif
