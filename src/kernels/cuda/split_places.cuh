/* split_places.cuh - the division of the entries of ragged caches among blocks: arguments of the kernel, the pieces of
 * a block, and how the last block of a head combines the results of its pieces (split_kv.cuh). */
#ifndef LH_KERNELS_CUDA_SPLIT_PLACES_CUH
#define LH_KERNELS_CUDA_SPLIT_PLACES_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/softmax.cuh"

enum {
    LH_SPLIT_FIXED = 128,  /* maximum pieces of a head if the order of sums is fixed */
    LH_SPLIT_BLOCKS = 256, /* maximum blocks of a launch, and pieces of a head */
    LH_SPLIT_SEQS = 16,    /* sequences of a launch */
    LH_SPLIT_KEYS = 16,    /* entries that a warp processes together: a group */
    LH_SPLIT_LEAST = 8,    /* minimum groups of a block, on average */
    LH_SPLIT_MAX_DIM = 256
};
static_assert(LH_SHARED_BLOCK % LH_SPLIT_KEYS == 0, "a group lies in one segment");

/* Results of pieces, which the last block of a unit combines. */
typedef struct lh_split_parts {
    float *o;          /* [parts, tile, dim] */
    float2 *sums;      /* [parts, tile] row maximum and denominator */
    uint32_t *arrived; /* [units] 0 */
    uint32_t *readers; /* 0: blocks that have read the lengths */
} lh_split_parts;

/* Rows over the caches of `seqs`, which are host structs copied into the launch. Row r of sequence b is row b * rows +
 * r of every array. A unit is a tile of rows of one KV head: unit (sequence * heads + head) * tiles + tile. */
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
    lh_form form;
    int tiles; /* tiles of rows of a KV head */
    int tile;  /* maximum rows of a tile */
    int units;
    int fresh;    /* entries that `len` does not count yet */
    int is_fixed; /* true if the pieces of a head depend on the number of its entries only */
    int stages;   /* of the ring of a warp */
    lh_split_parts parts;
    lh_ragged seqs[LH_SPLIT_SEQS];
    lh_row_logits logits[LH_SPLIT_SEQS]; /* for rows = 1 */
} lh_split_kv;

/* ---- units ---- */

/* A unit in shared memory. Positions have 32 bits, and so have slots of a head. */
typedef struct lh_split_unit {
    int before;               /* shares of the units before it */
    int first, end;           /* slots of the visible entries; `first` is a multiple of a group */
    int shared;               /* slots of the head in the parent */
    int64_t slots;            /* first slot of the head in the cache */
    lh_visible_range visible; /* of its rows, if sequences have one row */
} lh_split_unit;

/* Rows of a unit. */
typedef struct lh_split_rows {
    int seq, head;
    int i0, count;  /* the first query head; query heads */
    int row0, rows; /* rows of the tile, among the sequence's rows * count; a group cut by ranks may have none */
} lh_split_rows;

static __device__ __forceinline__ lh_split_rows lh_split_rows_of(const lh_split_kv &a, int unit)
{
    const int group = (int)a.map.group, first = (int)a.map.first, heads = (int)a.heads;
    lh_split_rows r;
    r.seq = unit / a.tiles / heads;
    r.head = (int)a.first_head + unit / a.tiles % heads;
    r.i0 = max(r.head * group - first, 0);
    r.count = min((r.head + 1) * group - first, (int)a.map.heads) - r.i0;
    r.row0 = unit % a.tiles * a.tile;
    r.rows = max(0, min((int)a.rows * r.count - r.row0, a.tile));
    return r;
}

/* The unit without its place. If slots are positions, the entries that the row of a step does not see are left out. */
static __device__ __forceinline__ lh_split_unit lh_split_unit_of(const lh_split_kv &a, const lh_split_rows &r)
{
    const lh_ragged &kv = a.seqs[r.seq];
    lh_split_unit u = {0, 0, (int)kv.len[r.head] + a.fresh, (int)lh_parent_len(&kv, r.head), kv.offset[r.head], {}};
    if (!a.o) return u;
    u.visible = lh_visible_range_of(a.positions, a.until, a.logit.window, r.seq);
    if (kv.positions) return u;
    u.first = (u.visible.before + 1) / LH_SPLIT_KEYS * LH_SPLIT_KEYS;
    u.end = max(u.first, min(u.end - 1, u.visible.last) + 1);
    return u;
}

/* Entries of a share: a group, or a piece of a fixed size. */
static __device__ __forceinline__ int lh_split_share(const lh_split_kv &a, const lh_split_unit &u)
{
    const int least = 8 * LH_SPLIT_KEYS, most = LH_SPLIT_FIXED * LH_SPLIT_KEYS;
    return a.is_fixed ? max(least, (u.end - u.first + most - 1) / most * LH_SPLIT_KEYS) : +LH_SPLIT_KEYS;
}

/* ---- the plan of a launch, the same in all blocks ---- */

/* The shares of all units in a row are cut evenly among blocks. */
typedef struct lh_split_plan {
    const lh_split_unit *units; /* shared, [units + 1]; the last one has only `before` */
    int64_t blocks;             /* that have shares */
    int first, end;             /* shares of this block */
} lh_split_plan;

/* The first share of block b. */
static __device__ __forceinline__ int lh_split_cut(int64_t shares, int64_t blocks, int64_t b)
{
    return (int)((uint64_t)(shares * b) / (uint64_t)blocks);
}

/* The block that has share x. */
static __device__ __forceinline__ int lh_split_block_of(const lh_split_kv &a, const lh_split_plan &plan, int64_t x)
{
    return (int)((uint64_t)((x + 1) * plan.blocks - 1) / (uint64_t)plan.units[a.units].before);
}

/* Blocks that get shares, at most as many as there are shares: each then has one (units may have no rows, and no
 * share). A multiple of the units where that loses little, so that heads of one length are cut in the same way. */
static __device__ __forceinline__ int64_t lh_split_blocks(const lh_split_kv &a, int shares)
{
    const int most = (int)gridDim.x, enough = max(1, min(shares, max(shares / LH_SPLIT_LEAST, a.units)));
    if (a.is_fixed) return min(most, shares);
    const int blocks = min(most, enough), even = blocks / a.units * a.units;
    return 10 * even >= 9 * blocks ? even : blocks;
}

/* units: shared memory for [units + 1]. */
static __device__ inline lh_split_plan lh_split_plan_of(const lh_split_kv &a, lh_split_unit *units)
{
    __shared__ int room[LH_WARP];
    int all = 0;
    for (int from = 0; from < a.units; from += (int)blockDim.x) {
        const int unit = from + (int)threadIdx.x;
        lh_split_unit u = {};
        int shares = 0, more;
        if (unit < a.units) {
            const lh_split_rows r = lh_split_rows_of(a, unit);
            u = lh_split_unit_of(a, r);
            const int share = lh_split_share(a, u);
            shares = r.rows ? max(1, (u.end - u.first + share - 1) / share) : 0;
        }
        u.before = all + lh_block_before(shares, room, &more);
        if (unit < a.units) units[unit] = u;
        all += more;
    }
    if (threadIdx.x == 0) units[a.units].before = all;
    __syncthreads();
    lh_split_plan plan = {units, lh_split_blocks(a, all), 0, 0};
    if (blockIdx.x >= plan.blocks) return plan;
    plan.first = lh_split_cut(all, plan.blocks, blockIdx.x);
    plan.end = lh_split_cut(all, plan.blocks, blockIdx.x + 1);
    return plan;
}

/* ---- pieces ---- */

/* Entries of a unit that one block processes. */
typedef struct lh_split_piece {
    lh_split_rows of;
    int unit;
    int piece, pieces, next; /* pieces of the unit; the block's share after this piece */
    int part0;               /* the first part of the unit */
    int first, end;          /* slots of the piece */
} lh_split_piece;

/* The unit that has share x. */
static __device__ __forceinline__ int lh_split_find(const lh_split_kv &a, const lh_split_plan &plan, int x)
{
    int low = 0, high = a.units;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (plan.units[middle].before <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The piece that begins with share x. */
static __device__ __forceinline__ lh_split_piece lh_split_piece_at(const lh_split_kv &a, const lh_split_plan &plan,
                                                                   int x)
{
    const int unit = lh_split_find(a, plan, x);
    const lh_split_unit &u = plan.units[unit];
    const int from = u.before, to = plan.units[unit + 1].before, share = lh_split_share(a, u);
    lh_split_piece p;
    p.of = lh_split_rows_of(a, unit);
    p.unit = unit;
    p.next = a.is_fixed ? x + 1 : min(to, plan.end);
    p.first = u.first + (x - from) * share;
    p.end = min(u.first + (p.next - from) * share, u.end);
    if (a.is_fixed) {
        p.part0 = unit * LH_SPLIT_FIXED;
        p.piece = x - from;
        p.pieces = to - from;
    } else { /* parts are in the order of blocks, and a block's in the order of units */
        const int block = lh_split_block_of(a, plan, from);
        p.part0 = block + unit;
        p.piece = (int)blockIdx.x - block;
        p.pieces = lh_split_block_of(a, plan, to - 1) - block + 1;
    }
    return p;
}

/* Row k of the tile: its row in the arrays and its query head. */
static __device__ __forceinline__ void lh_split_row(const lh_split_kv &a, const lh_split_piece &p, int k, int64_t *r,
                                                    int64_t *i)
{
    int at = p.of.row0 + k;
    *r = p.of.seq * a.rows + at / p.of.count;
    *i = p.of.i0 + at % p.of.count;
}

/* ---- combining the pieces of a unit, by the last block to finish, in their order ---- */

/* The result of a row of the tile: o = sum / denominator (0 where there is no denominator), lse. */
static __device__ __forceinline__ float lh_quotient(float sum, float denominator)
{
    return denominator != 0 ? sum / denominator : 0.0f;
}

static __device__ __forceinline__ void lh_split_tell(const lh_split_kv &a, const lh_split_piece &p, int k,
                                                     float row_max, float denominator)
{
    int64_t r, i;
    lh_split_row(a, p, k, &r, &i);
    if (a.lse) a.lse[r * a.map.heads + i] = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
}

/* Shared memory for combining. */
typedef struct lh_split_joint {
    float *row_max, *denominator; /* [tile] over all pieces */
    float *weights;               /* [tile, LH_SPLIT_BLOCKS] of the pieces */
} lh_split_joint;

/* The weights of row k's pieces, by one warp. */
static __device__ inline void lh_split_weigh(const lh_split_kv &a, const lh_split_piece &p, int k,
                                             const lh_split_joint &j)
{
    enum { EACH = LH_SPLIT_BLOCKS / LH_WARP };
    const float2 *part = a.parts.sums + (int64_t)(p.part0 + lh_lane()) * a.tile + k;
    const int left = p.pieces - lh_lane();
    float row_max = -INFINITY, denominator = 0.0f;
    float2 own[EACH];
#pragma unroll
    for (int s = 0; s < EACH; s++)
        own[s] = s * LH_WARP < left ? __ldcg(part + s * LH_WARP * a.tile) : make_float2(-INFINITY, 0.0f);
#pragma unroll
    for (int s = 0; s < EACH; s++) row_max = fmaxf(row_max, own[s].x);
    row_max = lh_warp_max(row_max);
#pragma unroll
    for (int s = 0; s < EACH; s++) {
        if (s * LH_WARP >= left) break;
        float weight = lh_weight(own[s].x, lh_shift(row_max));
        j.weights[k * LH_SPLIT_BLOCKS + lh_lane() + s * LH_WARP] = weight;
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
    const V *sum; /* of the first piece */
    int64_t next; /* from a piece to the next one */
    int row;

    __device__ lh_split_numbers(const lh_split_kv &a, const lh_split_piece &p, int n)
    {
        int wide = (int)(sizeof(V) / sizeof(float)), per_row = a.form.dim / wide, x = n % per_row;
        int64_t r, i;
        row = n / per_row;
        sum = (const V *)(a.parts.o + ((int64_t)p.part0 * a.tile + row) * a.form.dim) + x;
        next = (int64_t)a.tile * per_row;
        lh_split_row(a, p, row, &r, &i);
        at = r * a.o_ld + i * a.form.dim + x * wide;
    }
};

/* The weights of all rows' pieces, by a block. */
static __device__ __forceinline__ void lh_split_weigh_all(const lh_split_kv &a, const lh_split_piece &p,
                                                          const lh_split_joint &j)
{
    for (int k = lh_warp(); k < p.of.rows; k += (int)blockDim.x / LH_WARP) lh_split_weigh(a, p, k, j);
    __syncthreads();
}

/* The sums of all pieces, V numbers per thread. The sums of the first pieces, usually of all, are loaded together
 * with the maxima and denominators of their weights. */
template <typename K, typename V>
static __device__ void lh_split_merge(const lh_split_kv &a, const lh_split_piece &p, const lh_split_joint &j)
{
    enum { AHEAD = K::D <= 128 ? 16 : 4 }; /* as registers allow */
    const int count = p.of.rows * (a.form.dim / (int)(sizeof(V) / sizeof(float)));
    V ahead[AHEAD] = {};
    for (int first = 0; first < count; first += (int)blockDim.x) {
        const int n = first + (int)threadIdx.x, is_mine = n < count;
        const lh_split_numbers<V> y(a, p, is_mine ? n : 0);
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (is_mine && s < p.pieces) ahead[s] = __ldcg(y.sum + s * y.next);
        if (first == 0) lh_split_weigh_all(a, p, j);
        const float *weights = j.weights + y.row * LH_SPLIT_BLOCKS;
        V sum = {};
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            if (s < p.pieces) lh_add_weighted(&sum, weights[s], ahead[s]);
#pragma unroll AHEAD
        for (int s = AHEAD; s < p.pieces; s++) lh_add_weighted(&sum, weights[s], __ldcg(y.sum + s * y.next));
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
static __device__ inline int lh_split_is_last(const lh_split_kv &a, const lh_split_piece &p)
{
    __shared__ int last;
    __syncthreads();
    if (threadIdx.x == 0) {
        last = lh_split_arrive(&a.parts.arrived[p.unit]) == (uint32_t)p.pieces - 1;
        if (last) a.parts.arrived[p.unit] = 0;
    }
    __syncthreads();
    return last;
}

/* ---- lengths that count fresh entries ---- */

/* Counts this block among those that have read the lengths; returns 1 in a thread of the last one. */
static __device__ __forceinline__ int lh_split_read_all(const lh_split_kv &a)
{
    return threadIdx.x == 0 && lh_split_arrive(a.parts.readers) == gridDim.x - 1;
}

/* The block that was last raises the lengths. `is_last`: of this thread. */
static __device__ inline void lh_split_raise(const lh_split_kv &a, int is_last)
{
    __shared__ int last;
    if (threadIdx.x == 0) last = is_last;
    __syncthreads();
    if (!last) return;
    if (threadIdx.x == 0) *a.parts.readers = 0;
    const int heads = (int)a.seqs[0].heads, all = a.units / a.tiles / (int)a.heads * heads;
    for (int n = (int)threadIdx.x; n < all; n += (int)blockDim.x) a.seqs[n / heads].len[n % heads] += a.fresh;
}

#endif
