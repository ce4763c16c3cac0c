/* expert_gemm.cuh - products of experts in terms of gemm.cuh: a block finds its rows on the device and computes a part
 * of an ordinary product. Not called without assignments, outputs or inputs. */
#ifndef LH_KERNELS_CUDA_EXPERT_GEMM_CUH
#define LH_KERNELS_CUDA_EXPERT_GEMM_CUH

#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/warp.cuh"

/* Upper bound of the number of tiles of ROWS rows, whole and partial, of all experts. An expert has at most one row per
 * token. */
template <int ROWS>
static inline int64_t lh_expert_tiles(const lh_routes *r)
{
    int64_t assignments = r->tokens * r->top_k, met = assignments < r->experts ? assignments : r->experts;
    return r->tokens <= ROWS ? met : assignments / ROWS + met;
}

/* *g = tile n, at most ROWS rows of one expert, as a separate product. Returns 0 if there are fewer tiles. Each warp
 * searches by itself; a lane counts the tiles of a run of experts. */
template <typename T, int ROWS>
static __device__ __forceinline__ int lh_expert_tile(lh_gemm_args *g, const lh_expert_gemm_args &a, int n)
{
    const int32_t *first = a.routes.first;
    int experts = (int)a.routes.experts, run = (experts + LH_WARP - 1) / LH_WARP, count = 0;
    for (int e = lh_lane() * run; e < min(experts, (lh_lane() + 1) * run); e++)
        count += (first[e + 1] - first[e] + ROWS - 1) / ROWS;
    int before = lh_warp_before(count);
    unsigned owner = __ballot_sync(LH_ALL, before <= n && n < before + count);
    if (!owner) return 0;
    int lane = __ffs((int)owner) - 1, e = lane * run;
    n -= __shfl_sync(LH_ALL, before, lane);
    for (; n >= (first[e + 1] - first[e] + ROWS - 1) / ROWS; e++) n -= (first[e + 1] - first[e] + ROWS - 1) / ROWS;
    int64_t s = first[e] + (int64_t)n * ROWS, left = first[e + 1] - s;
    g->y = a.y + s * a.y_ld;
    g->x = (const T *)a.x + s * a.x_ld;
    g->w = a.w;
    g->w.data = (const char *)a.w.data + e * a.w.step;
    g->type = a.type;
    g->bias = NULL;
    g->tokens = left < ROWS ? left : ROWS;
    g->out = a.out;
    g->in = a.in;
    g->y_ld = a.y_ld;
    g->x_ld = a.x_ld;
    g->adds = 0;
    return 1;
}

/* For few tokens: tiles of LH_SMALL_F32 or LH_SMALL_BF16. gemm_small.cu */
lh_status lh_expert_gemm_small(lh_stream *stream, const lh_expert_gemm_args *a, int is_wide);

/* At most LH_STREAM_TOKENS tokens, of bf16 numbers in wide rows. gemm_stream.cu */
lh_status lh_expert_gemm_stream(lh_stream *stream, const lh_expert_gemm_args *a);

/* Any number of tokens, in the fixed order. gemm.cu */
lh_status lh_expert_gemm_fixed(lh_stream *stream, const lh_expert_gemm_args *a);

#endif
