/* The kernels of lh_sdpa_prepare and lh_sdpa_finish. Queries and results are moved once, four numbers
 * at a time: negligible compared with the attention itself. */
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/cuda/attend_cudnn.h"
}

typedef struct sdpa_job {
    lh_sdpa_arrays to;
    const float *q;
    float *o, *lse;
    __nv_bfloat16 *o_bf16;
    int keeps_o;
    const int64_t *offset, *len; /* from the map's first KV head on */
    int64_t tokens, heads, group, dim, q_ld, o_ld;
} sdpa_job;

static sdpa_job job_of(const lh_attend_block_args *a, const lh_sdpa_arrays *arrays)
{
    const int64_t first = a->map.first / a->map.group;
    return sdpa_job{*arrays,
                    a->q,
                    a->o,
                    a->lse,
                    (__nv_bfloat16 *)a->o_bf16,
                    a->keeps_o || !a->o_bf16,
                    a->kv->offset + first,
                    a->kv->len + first,
                    a->tokens,
                    a->map.heads,
                    a->map.group,
                    a->kv->head_dim,
                    a->q_ld,
                    a->o_ld};
}

/* The place of number x of query head i of token t in q and o of the arrays. */
static __device__ __forceinline__ int64_t sdpa_at(const sdpa_job &a, int64_t t, int64_t i, int64_t x)
{
    int64_t head = i / a.group;
    return ((head * a.tokens + t) * a.group + i % a.group) * a.dim + x;
}

static __global__ void prepare_kernel(sdpa_job a, int width)
{
    const int64_t cols = a.heads * a.dim, kv_heads = a.heads / a.group;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y)
        for (int64_t n = 4 * lh_grid_first(); n < cols; n += 4 * lh_grid_step())
            lh_put4((__nv_bfloat16 *)a.to.q + sdpa_at(a, t, n / a.dim, n % a.dim),
                    lh_get4(a.q + t * a.q_ld + n, cols - n, width), 4, 4);
    if (blockIdx.y > 0) return;
    for (int64_t h = lh_grid_first(); h <= kv_heads; h += lh_grid_step()) {
        int64_t last = h < kv_heads ? h : kv_heads - 1;
        a.to.q_starts[h] = h * a.tokens * a.group * a.dim;
        a.to.starts[h] = (a.offset[last] + (h < kv_heads ? 0 : a.len[last])) * a.dim;
        if (h < kv_heads) a.to.rows[h] = (int32_t)a.tokens, a.to.len[h] = (int32_t)a.len[h];
    }
}

lh_status lh_sdpa_prepare(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays)
{
    return lh_launch(stream, "attend_block", lh_fours_shape(a->tokens, a->map.heads * a->kv->head_dim), prepare_kernel,
                     job_of(a, arrays), lh_width(a->q, a->q_ld, LH_F32));
}

/* cuDNN promises nothing for rows that see nothing. */
static __global__ void finish_kernel(sdpa_job a, int width)
{
    const int64_t cols = a.heads * a.dim;
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y)
        for (int64_t n = 4 * lh_grid_first(); n < cols; n += 4 * lh_grid_step()) {
            int64_t i = n / a.dim, sees = a.len[i / a.group] - a.tokens + t + 1;
            lh_four o = lh_get4((const __nv_bfloat16 *)a.to.o + sdpa_at(a, t, i, n % a.dim), sees > 0 ? 4 : 0, 4);
            if (a.keeps_o) lh_put4(a.o + t * a.o_ld + n, o, cols - n, width);
            if (a.o_bf16) lh_put4(a.o_bf16 + t * a.o_ld + n, o, cols - n, width);
            if (a.lse && n % a.dim == 0) a.lse[t * a.heads + i] = sees > 0 ? a.to.lse[i * a.to.lse_ld + t] : -INFINITY;
        }
}

lh_status lh_sdpa_finish(lh_stream *stream, const lh_attend_block_args *a, const lh_sdpa_arrays *arrays)
{
    return lh_launch(stream, "attend_block", lh_fours_shape(a->tokens, a->map.heads * a->kv->head_dim), finish_kernel,
                     job_of(a, arrays),
                     lh_width(a->o, a->o_ld, LH_F32) == 4 && lh_width(a->o_bf16, a->o_ld, LH_BF16) == 4 ? 4 : 1);
}
