/* split_kv.cuh - query rows that look at all entries of ragged caches (attend_decode, row_lse): which rows and entries
 * a block has, and how the parts of a row become one.
 *
 * The entries of a KV head are cut in up to LH_SPLITS pieces that depend on its own length only; a block has one piece
 * and a tile of rows: of one sequence and KV head, row r of query head i at r * (heads of the group here) + i. It
 * leaves at once where its head has no such piece, so the grid does not depend on lengths and a CUDA graph can be
 * replayed. Pieces leave their highest logit, their denominator and their sums of values; the last block of a head to
 * arrive puts them together in their order. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_CUH

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/softmax.cuh"

enum {
    LH_SPLITS = 128,    /* pieces of a head, at most */
    LH_SPLIT_SEQS = 16, /* sequences of a launch */
    LH_SPLIT_WARPS = 4, /* of a block */
    LH_SPLIT_KEYS = 16, /* entries that a warp has at a time */
    LH_SPLIT_MOST_DIM = 256
};
#define LH_SPLIT_THREADS (LH_SPLIT_WARPS * LH_WARP)
#define LH_SPLIT_STEP (LH_SPLIT_WARPS * LH_SPLIT_KEYS)

/* Rows that look at the caches of `seqs`, which are host structs copied into the launch. Row r of sequence b is row
 * b * rows + r of every array. */
typedef struct lh_split_kv {
    float *o;             /* sums of values; NULL: not wanted */
    float *lse;           /* may be NULL */
    lh_row_logits logits; /* of rows = 1 */
    const float *q;
    const int32_t *positions, *until; /* as in lh_observed */
    const float *gains;
    int64_t rows, q_ld, o_ld; /* rows of a sequence */
    lh_grouping map;
    lh_logit logit;
    int64_t first_head, heads; /* KV heads */
    int tiles;                 /* of rows of each */
    lh_form form;
    int tile;          /* rows that a tile has at most */
    float *part_o;     /* [units, LH_SPLITS, tile, dim], units = (sequence * heads + head) * tiles + tile */
    float2 *part;      /* [units, tile, LH_SPLITS] highest logit and denominator */
    uint32_t *arrived; /* [units] 0 */
    lh_ragged seqs[LH_SPLIT_SEQS];
} lh_split_kv;

/* Where a block is. */
typedef struct lh_split_place {
    int64_t head, seq, unit;
    int64_t i0;         /* the first query head */
    int count;          /* query heads */
    int row0, rows;     /* of the tile, among the sequence's rows * count */
    int64_t slots;      /* where the head begins in the cache */
    int64_t first, end; /* slots of the piece */
    int splits, split;
} lh_split_place;

/* Entries of a piece, a multiple of LH_SPLIT_STEP: short pieces keep all processors busy, long ones make little to put
 * together. */
static __device__ __forceinline__ int64_t lh_piece(int64_t len)
{
    const int64_t step = LH_SPLIT_STEP;
    if (len <= 32 * step) return step;
    if (len <= 64 * 2 * step) return 2 * step;
    if (len <= LH_SPLITS * 4 * step) return 4 * step;
    return ((len + LH_SPLITS - 1) / LH_SPLITS + step - 1) / step * step;
}

/* 0 where there is nothing to do. */
static __device__ __forceinline__ int lh_split_find(const lh_split_kv &a, lh_split_place *p)
{
    const lh_grouping &map = a.map;
    const lh_ragged &kv = a.seqs[blockIdx.y];
    int n = (int)blockIdx.x / a.tiles, tile = (int)blockIdx.x % a.tiles, left;
    int64_t low, high;
    p->head = a.first_head + n;
    p->seq = blockIdx.y;
    p->split = (int)blockIdx.z;
    int64_t len = kv.len[p->head], piece = lh_piece(len);
    p->splits = len > 0 ? (int)((unsigned)(len + piece - 1) / (unsigned)piece) : 1; /* of no 2^32 entries */
    low = p->head * map.group > map.first ? p->head * map.group : map.first;
    high = (p->head + 1) * map.group < map.first + map.heads ? (p->head + 1) * map.group : map.first + map.heads;
    p->i0 = low - map.first;
    p->count = (int)(high - low);
    p->row0 = tile * a.tile;
    left = (int)a.rows * p->count - p->row0;
    p->rows = left < a.tile ? left : a.tile;
    p->unit = (p->seq * a.heads + n) * a.tiles + tile;
    p->slots = kv.offset[p->head];
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

/* What a row of the tile became: o = sum / denominator (0 where there is no denominator), lse. */
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

/* What the pieces share: [4] numbers of every row, and room for sums or weights. */
typedef struct lh_split_joint {
    float *row_max, *denominator; /* [tile] of all pieces */
    float *weights;               /* [tile, LH_SPLITS] of the pieces */
} lh_split_joint;

/* Row k's pieces, by one warp: how much each counts. */
static __device__ inline void lh_split_weigh(const lh_split_kv &a, const lh_split_place &p, int k,
                                             const lh_split_joint &j)
{
    const float2 *part = a.part + (p.unit * a.tile + k) * LH_SPLITS;
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
static __device__ __forceinline__ void lh_put_quotient(float *at, float sum, float denominator)
{
    *at = lh_quotient(sum, denominator);
}
static __device__ __forceinline__ void lh_put_quotient(float *at, float4 sum, float denominator)
{
    at[0] = lh_quotient(sum.x, denominator);
    at[1] = lh_quotient(sum.y, denominator);
    at[2] = lh_quotient(sum.z, denominator);
    at[3] = lh_quotient(sum.w, denominator);
}

/* The sums of all pieces, V numbers a thread. 16 pieces are under way at a time. */
template <typename V>
static __device__ void lh_split_add(const lh_split_kv &a, const lh_split_place &p, const lh_split_joint &j)
{
    int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide;
    for (int n = (int)threadIdx.x; n < p.rows * per_row; n += LH_SPLIT_THREADS) {
        int k = n / per_row, x = n % per_row;
        const V *at = (const V *)(a.part_o + (p.unit * LH_SPLITS * a.tile + k) * a.form.dim) + x;
        int64_t next = (int64_t)a.tile * per_row, r, i;
        const float *weights = j.weights + k * LH_SPLITS;
        V sum;
        memset(&sum, 0, sizeof sum);
#pragma unroll 16
        for (int s = 0; s < p.splits; s++) lh_add_weighted(&sum, weights[s], __ldcg(at + s * next));
        lh_split_row(a, p, k, &r, &i);
        lh_put_quotient(a.o + r * a.o_ld + i * a.form.dim + x * wide, sum, j.denominator[k]);
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

/* Whether this block is the last of its unit: then it sees what all others have left. */
static __device__ inline int lh_split_is_last(const lh_split_kv &a, const lh_split_place &p)
{
    __shared__ int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&a.arrived[p.unit], 1u) == (uint32_t)p.splits - 1;
        if (last) a.arrived[p.unit] = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

#endif
