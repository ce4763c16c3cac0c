/* Penalties of logits and the sum of their probabilities. 256k logits are read, 4 bytes each: a millionth of a second
 * of an H200's memory. */
#include "kernels/cuda/vector.cuh"

/* Four neighbours have their bits in one word. */
static __global__ void penalise_kernel(lh_penalise_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        uint32_t seen = a.seen[i / 32] >> i % 32;
        for (int j = 0; j < 4; j++)
            if (seen >> j & 1) x.at[j] = lh_penalised(x.at[j], a.penalty);
        lh_put4(a.y + i, x, a.count - i, width);
    }
}

lh_status lh_cuda_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    int width = lh_width(a->x, 0, LH_F32) == 4 && lh_width(a->y, 0, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "penalise", lh_fours_shape(1, a->count), penalise_kernel, *a, width);
}

/* Integers: blocks may add theirs in any order. */
static __global__ void sum_probabilities_kernel(lh_sum_probabilities_args a, int width)
{
    __shared__ int64_t room[LH_WARP];
    int64_t sum = 0;
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        for (int j = 0; j < 4; j++) sum += i + j < a.count ? lh_probability(&a.by, x.at[j]) : 0;
    }
    sum = lh_block_sum(sum, room);
    if (threadIdx.x == 0) atomicAdd((unsigned long long *)a.sum, (unsigned long long)sum);
}

lh_status lh_cuda_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    LH_TRY(lh_stream_zero(stream, a->sum, (int64_t)sizeof *a->sum));
    LH_TRY(lh_launch(stream, "sum_probabilities", lh_fours_shape(1, a->count), sum_probabilities_kernel, *a,
                     lh_width(a->x, 0, LH_F32)));
    return LH_OK;
}
