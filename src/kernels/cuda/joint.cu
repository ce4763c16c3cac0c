/* One keep set for all heads: their scores are added up as integers. */
#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, SLOTS = 4 * THREADS };

/* What is not negative has the order of its bits. */
static __global__ void max_score_kernel(lh_max_score_args a)
{
    __shared__ float room[LH_WARP];
    int64_t h = blockIdx.y, len = a.len[h];
    float top = 0.0f;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float x = a.state[h * a.ld + s] == LH_ENTRY_COMPETES ? fabsf(a.scores[h * a.ld + s]) : 0.0f;
        top = x > top ? x : top; /* a NaN is no maximum */
    }
    top = lh_block_max(top, room);
    if (threadIdx.x == 0 && top > 0.0f) atomicMax((unsigned *)a.y, __float_as_uint(top));
}

lh_status lh_cuda_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    LH_TRY(lh_stream_zero(stream, a->y, (int64_t)sizeof *a->y));
    LH_TRY(lh_launch(stream, "max_score", lh_over_slots(a->heads, a->ld, THREADS, SLOTS), max_score_kernel, *a));
    return LH_OK;
}

/* A thread per column takes the heads in order. */
static __global__ void add_heads_kernel(lh_add_heads_args a)
{
    double scale = lh_joint_scale(*a.top, a.all_heads);
    for (int64_t s = lh_grid_first(); s < a.cols; s += lh_grid_step()) {
        int64_t sum = 0;
        for (int64_t h = 0; h < a.heads; h++) {
            double x = s < a.len[h] ? (double)a.scores[h * a.ld + s] * scale : 0.0;
            sum += x == x ? (int64_t)llrint(x) : 0;
        }
        a.sums[s] = sum;
    }
}

lh_status lh_cuda_add_heads(lh_stream *stream, const lh_add_heads_args *a)
{
    return lh_launch(stream, "add_heads", lh_shape{dim3(lh_blocks(a->cols, THREADS)), THREADS, 0}, add_heads_kernel,
                     *a);
}
