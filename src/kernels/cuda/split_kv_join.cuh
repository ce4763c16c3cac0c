/* split_kv_join.cuh - the pieces of a row become one: by the last block to arrive, in the order of the pieces. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_JOIN_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_JOIN_CUH

#include "kernels/cuda/split_kv.cuh"

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

/* Memory that the pieces share: [4] numbers of every row, and room for sums or weights. */
typedef struct lh_split_joint {
    float *row_max, *denominator; /* [tile] of all pieces */
    float *weights;               /* [tile, LH_SPLITS] of the pieces */
} lh_split_joint;

/* Row k's pieces, by one warp: how much each counts. */
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

/* Numbers of o from `at` on. */
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

/* The sums of all pieces, V numbers a thread. 16 pieces are under way at a time. */
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

/* 1 in the last block of a unit to arrive: it sees the results of all others. */
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

#endif
