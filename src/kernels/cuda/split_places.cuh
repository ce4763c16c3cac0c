/* split_places.cuh - splits of the entries of ragged caches: arguments of the kernel, the place of a block, and how the
 * last block of a head joins what splits leave (split_kv.cuh). */
#ifndef LH_KERNELS_CUDA_SPLIT_PLACES_CUH
#define LH_KERNELS_CUDA_SPLIT_PLACES_CUH

#include "kernels/cuda/launch.cuh"
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
    int64_t len, slots; /* entries of the head, and its first slot in the cache */
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

/* The head and rows of a block. Loaded numbers are not used here, so that other loads can start meanwhile. */
static __device__ __forceinline__ void lh_split_find(const lh_split_kv &a, lh_split_place *p)
{
    const lh_grouping &map = a.map;
    const lh_ragged &kv = a.seqs[blockIdx.y];
    int n = (int)blockIdx.x / a.tiles, tile = (int)blockIdx.x % a.tiles, left;
    int64_t low, high;
    p->head = a.first_head + n;
    p->seq = blockIdx.y;
    p->split = (int)blockIdx.z;
    p->len = kv.len[p->head];
    p->slots = kv.offset[p->head];
    p->shared = (int)lh_parent_len(&kv, p->head);
    low = p->head * map.group > map.first ? p->head * map.group : map.first;
    high = (p->head + 1) * map.group < map.first + map.heads ? (p->head + 1) * map.group : map.first + map.heads;
    p->i0 = low - map.first;
    p->count = (int)(high - low);
    p->row0 = tile * a.tile;
    left = (int)a.rows * p->count - p->row0;
    p->rows = left < a.tile ? left : a.tile;
    p->unit = (p->seq * a.heads + n) * a.tiles + tile;
}

/* The entries of a block. Returns 0 if it has nothing to do. */
static __device__ __forceinline__ int lh_split_cut(const lh_split_kv &a, lh_split_place *p)
{
    int64_t len = p->len, piece = lh_piece(len, a.most);
    p->splits =
        len > 0 ? (int)((unsigned)(len + piece - 1) / (unsigned)piece) : 1; /* heads have less than 2^32 entries */
    p->first = p->split * piece;
    p->end = p->first + piece < len ? p->first + piece : len;
    return p->split < p->splits && p->rows > 0;
}

/* Row k of the tile: its row in the arrays and its query head. */
static __device__ __forceinline__ void lh_split_row(const lh_split_kv &a, const lh_split_place &p, int k, int64_t *r,
                                                    int64_t *i)
{
    int at = p.row0 + k;
    *r = p.seq * a.rows + at / p.count;
    *i = p.i0 + at % p.count;
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

/* Shared memory for combining. */
typedef struct lh_split_joint {
    float *row_max, *denominator; /* [tile] over all splits */
    float *weights;               /* [tile, LH_SPLITS] of the splits */
} lh_split_joint;

/* The weights of row k's splits, by one warp. */
static __device__ inline void lh_split_weigh(const lh_split_kv &a, const lh_split_place &p, int k,
                                             const lh_split_joint &j)
{
    enum { EACH = LH_SPLITS / LH_WARP };
    const float2 *part = a.parts.sums + (p.unit * a.tile + k) * LH_SPLITS + lh_lane();
    const int left = p.splits - lh_lane();
    float row_max = -INFINITY, denominator = 0.0f;
    float2 own[EACH];
#pragma unroll
    for (int s = 0; s < EACH; s++)
        own[s] = s * LH_WARP < left ? __ldcg(part + s * LH_WARP) : make_float2(-INFINITY, 0.0f);
#pragma unroll
    for (int s = 0; s < EACH; s++) row_max = fmaxf(row_max, own[s].x);
    row_max = lh_warp_max(row_max);
#pragma unroll
    for (int s = 0; s < EACH; s++) {
        if (s * LH_WARP >= left) break;
        float weight = lh_weight(own[s].x, lh_shift(row_max));
        j.weights[k * LH_SPLITS + lh_lane() + s * LH_WARP] = weight;
        denominator = fmaf(weight, own[s].y, denominator);
    }
    denominator = lh_warp_sum(denominator);
    if (lh_lane() == 0) j.row_max[k] = row_max, j.denominator[k] = denominator;
}

/* sum += weight * x */
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

/* V numbers of a row: number n of the tile. */
template <typename V>
struct lh_split_numbers {
    int64_t at;   /* in the arrays of o */
    const V *sum; /* of the first split */
    int64_t next; /* from a split to the next one */
    int row;

    __device__ lh_split_numbers(const lh_split_kv &a, const lh_split_place &p, int n)
    {
        int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide, x = n % per_row;
        int64_t r, i;
        row = n / per_row;
        sum = (const V *)(a.parts.o + (p.unit * LH_SPLITS * a.tile + row) * a.form.dim) + x;
        next = (int64_t)a.tile * per_row;
        lh_split_row(a, p, row, &r, &i);
        at = r * a.o_ld + i * a.form.dim + x * wide;
    }
};

/* The weights of all rows' splits, by a block. */
static __device__ __forceinline__ void lh_split_weigh_all(const lh_split_kv &a, const lh_split_place &p,
                                                          const lh_split_joint &j)
{
    for (int k = lh_warp(); k < p.rows; k += LH_SPLIT_WARPS) lh_split_weigh(a, p, k, j);
    __syncthreads();
}

/* The sums of all splits, V numbers per thread. The sums of the first splits, usually of all, are loaded together
 * with the maxima and denominators of their weights. */
template <typename K, typename V>
static __device__ void lh_split_merge(const lh_split_kv &a, const lh_split_place &p, const lh_split_joint &j)
{
    enum { AHEAD = K::D <= 128 ? 16 : 4 }; /* as registers allow */
    const int count = p.rows * (a.form.dim / (int)(sizeof(V) / sizeof(float)));
    V ahead[AHEAD] = {};
    for (int first = 0; first < count; first += LH_SPLIT_THREADS) {
        const int n = first + (int)threadIdx.x, is_mine = n < count;
        const lh_split_numbers<V> y(a, p, is_mine ? n : 0);
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (is_mine && s < p.splits) ahead[s] = __ldcg(y.sum + s * y.next);
        if (first == 0) lh_split_weigh_all(a, p, j);
        const float *weights = j.weights + y.row * LH_SPLITS;
        V sum = {};
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (s < p.splits) lh_add_weighted(&sum, weights[s], ahead[s]);
#pragma unroll AHEAD
        for (int s = AHEAD; s < p.splits; s++) lh_add_weighted(&sum, weights[s], __ldcg(y.sum + s * y.next));
        if (is_mine) lh_split_put(a, y.at, sum, j.denominator[y.row]);
    }
}

/* Adds 1; returns the old number. Numbers that the block stored before its last barrier are visible to a block that
 * adds later, after its next barrier (PTX ISA, memory consistency model: release and acquire, cumulative over
 * barriers). */
static __device__ __forceinline__ uint32_t lh_split_arrive(uint32_t *count)
{
#ifdef LH_SIMT
    return atomicAdd(count, 1u);
#else
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    return before;
#endif
}

/* Returns 1 in the last block of a unit to finish: it sees the results of all other blocks. */
static __device__ inline int lh_split_is_last(const lh_split_kv &a, const lh_split_place &p)
{
    __shared__ int last;
    __syncthreads();
    if (threadIdx.x == 0) {
        last = lh_split_arrive(&a.parts.arrived[p.unit]) == (uint32_t)p.splits - 1;
        if (last) a.parts.arrived[p.unit] = 0;
    }
    __syncthreads();
    return last;
}

#endif
