/* The search for the best entries of many heads between its histograms, and what each of the heads keeps. All of it is
 * small: 8 KB of bins a head and round, and some numbers a head. */
#include "kernels/cuda/entries.cuh"
#include "kernels/head_budgets.h"

enum { THREADS = 256 };

/* The number of thread t's bins, and its first one; bins go to threads from the last one down. */
static __device__ __forceinline__ int64_t bins_each(int64_t size)
{
    return (size + blockDim.x - 1) / blockDim.x;
}

/* ---- sums of bins: blockIdx.x is the head and its layer ---- */

static __global__ void add_histograms_kernel(lh_add_histograms_args a)
{
    __shared__ int64_t room[LH_WARP];
    int64_t size = (int64_t)1 << a.bits, each = bins_each(size), last = size - 1 - threadIdx.x * each, mine = 0, all;
    const int32_t *bins = a.histograms + blockIdx.x * size;
    int64_t above = a.candidates ? a.candidates[blockIdx.x].above : 0;
    int64_t skip = lh_max_i64(0, a.limits[blockIdx.x % a.of.layers].floor - above);
    int32_t *sums = a.sums + lh_contest_of(&a.of, blockIdx.x) * (size + 1);
    for (int64_t b = last; b > last - each && b >= 0; b--) mine += bins[b];
    int64_t before = lh_block_before(mine, room, &all);
    for (int64_t b = last; b > last - each && b >= 0; b--) {
        int64_t n = bins[b], left = n - lh_min_i64(lh_max_i64(0, skip - before), n);
        if (left) atomicAdd(sums + b, (int)left);
        before += n;
    }
    if (threadIdx.x == 0 && skip > 0) atomicAdd(sums + size, (int)lh_min_i64(skip, all));
}

lh_status lh_cuda_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    int64_t sums = lh_contest_count(&a->of) * (((int64_t)1 << a->bits) + 1);
    LH_TRY(lh_stream_zero(stream, a->sums, sums * (int64_t)sizeof *a->sums));
    LH_TRY(lh_launch(stream, "add_histograms", lh_shape{dim3((unsigned)(a->of.heads * a->of.layers)), THREADS, 0},
                     add_histograms_kernel, *a));
    return LH_OK;
}

/* ---- refine_threshold: blockIdx.y is the contest, whose blocks all find the same bin, and update one head each ----
 */

/* In *bin, shared; returns what is wanted of it. Every thread of the block calls it. */
static __device__ int64_t find_bin(const lh_refine_threshold_args &a, int64_t contest, int64_t *bin)
{
    __shared__ int64_t room[LH_WARP], wanted;
    int64_t size = (int64_t)1 << a.bits, each = bins_each(size), last = size - 1 - threadIdx.x * each, mine = 0, all;
    for (int64_t b = last; b > last - each && b >= 0; b--) mine += lh_bin_of_ranks(&a, contest, b);
    int64_t before = lh_block_before(mine, room, &all);
    int64_t left_out = a.from ? 0 : lh_bin_of_ranks(&a, contest, size);
    int64_t want =
        a.from ? a.from[contest].want : lh_min_i64(lh_most_of(a.limits, &a.of, contest), all + left_out) - left_out;
    if (threadIdx.x == 0) {
        *bin = want > 0 ? 0 : size - 1;
        wanted = want > 0 ? want - (all - lh_bin_of_ranks(&a, contest, 0)) : want;
    }
    __syncthreads();
    for (int64_t b = last; b > last - each && b >= 0; b--) {
        int64_t held = lh_bin_of_ranks(&a, contest, b);
        if (before < want && want <= before + held) {
            *bin = b;
            wanted = want - before;
        }
        before += held;
    }
    __syncthreads();
    return wanted;
}

static __global__ void refine_threshold_kernel(lh_refine_threshold_args a)
{
    __shared__ int64_t room[LH_WARP], bin;
    const lh_contest c = lh_contest_at(&a.of, blockIdx.y);
    int64_t size = (int64_t)1 << a.bits, want = find_bin(a, c.index, &bin), all = 0, above = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        a.to[c.index] = lh_search{want, (a.from ? a.from[c.index].prefix << a.bits : 0) | (uint32_t)bin};
    if ((int64_t)blockIdx.x >= a.of.heads * c.layers) return;
    int64_t cell = blockIdx.x / c.layers * a.of.layers + c.first + blockIdx.x % c.layers;
    const int32_t *bins = a.histograms + cell * size;
    for (int64_t b = threadIdx.x; b < size; b += blockDim.x) {
        all += bins[b];
        above += b > bin ? bins[b] : 0;
    }
    all = lh_block_sum(all, room);
    above = lh_block_sum(above, room);
    if (threadIdx.x > 0) return;
    lh_candidate_counts t = a.from ? a.candidates[cell] : lh_candidate_counts{(int32_t)all, 0, 0};
    t.above += (int32_t)above;
    t.at = bins[bin];
    a.candidates[cell] = t;
}

/* Without heads there is a search all the same. */
lh_status lh_cuda_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    int64_t contests = lh_contest_count(&a->of), cells = a->of.heads * a->of.layers / contests;
    return lh_launch(stream, "refine_threshold",
                     lh_shape{dim3((unsigned)(cells ? cells : 1), (unsigned)contests), THREADS, 0},
                     refine_threshold_kernel, *a);
}

/* ---- head_budgets ---- */

/* A block a contest, whose threads take the heads in the order of ties. lags: [heads * layers]. */
static __global__ void head_budgets_kernel(lh_head_budgets_args a, int64_t *lags)
{
    __shared__ int64_t left;
    const lh_contest c = lh_contest_at(&a.of, blockIdx.x);
    lags += a.of.heads * c.first;
    if (threadIdx.x == 0) left = lh_give_rounds(&a, c, lh_give_shares(&a, c, lags), lags);
    __syncthreads();
    lh_give_last(&a, c, left, lags, threadIdx.x, blockDim.x);
}

lh_status lh_cuda_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t *lags = NULL, n = a->of.heads * a->of.layers;
    if (n == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &lags, n * (int64_t)sizeof *lags));
    LH_TRY(lh_launch(stream, "head_budgets", lh_shape{dim3((unsigned)lh_contest_count(&a->of)), THREADS, 0},
                     head_budgets_kernel, *a, lags));
    return LH_OK;
}
