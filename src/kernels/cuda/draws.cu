/* Random scores, keyed by what they are drawn for: a thread per slot draws its own Philox word. */
#include "kernels/cuda/entries.cuh"

extern "C" {
#include "base/rng.h"
}

enum { THREADS = 256, SLOTS = 4 * THREADS };

static __device__ uint32_t draw_word(const lh_draw &draw, const lh_ragged &kv, int64_t h, int64_t s)
{
    const uint32_t counter[4] = {draw.counter[0], draw.counter[1], (uint32_t)(draw.first_head + h),
                                 (uint32_t)lh_position(kv, h, s)};
    uint32_t words[4];
    lh_philox(words, draw.key, counter);
    return words[0];
}

static __global__ void random_scores_kernel(lh_random_scores_args a, lh_ragged kv)
{
    int64_t h = blockIdx.y, len = kv.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step())
        a.y[h * a.ld + s] = lh_uniform(draw_word(a.draw, kv, h, s));
}

lh_status lh_cuda_random_scores(lh_stream *stream, const lh_random_scores_args *a)
{
    return lh_launch(stream, "random_scores", lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS), random_scores_kernel,
                     *a, *a->kv);
}

/* logf is right to an ulp also near 1, where u is: the numbers 1 - n / 2^24 are exact. */
static __global__ void gumbel_scores_kernel(lh_gumbel_scores_args a, lh_ragged kv)
{
    int64_t h = blockIdx.y, len = kv.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float u = lh_uniform_open(draw_word(a.draw, kv, h, s));
        a.y[h * a.ld + s] = a.x[h * a.ld + s] / a.temperature - logf(-logf(u));
    }
}

lh_status lh_cuda_gumbel_scores(lh_stream *stream, const lh_gumbel_scores_args *a)
{
    return lh_launch(stream, "gumbel_scores", lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS), gumbel_scores_kernel,
                     *a, *a->kv);
}
