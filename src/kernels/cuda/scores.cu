/* Scores of single slots: a thread per slot, blockIdx.y a head. They move each number once; only apply_prior reads its
 * priors twice, for their maximum. */
#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, SLOTS = 4 * THREADS };

/* ---- statistics as scores, and groups of query heads ---- */

typedef struct finish_job {
    lh_finish_scores_args args;
    lh_ragged kv;
} finish_job;

/* Rows at positions [first_row, seen) that saw the entry at `position`, and those that saw all. */
static __device__ __forceinline__ float visits(const lh_finish_scores_args &a, int64_t position)
{
    int64_t end = a.seen, begin = position > a.first_row ? position : a.first_row;
    if (a.window > 0 && position + a.window < end) end = position + a.window;
    return (float)((end > begin ? end - begin : 0) + a.more);
}

/* In f64 where numbers cancel: cards are slow at it, but this waits for memory. */
static __device__ __forceinline__ float finished(const lh_finish_scores_args &a, float x, float squares, float n)
{
    if (a.kind == LH_FINISH_PLAIN) return a.factor * x;
    if (n <= 0) return 0.0f;
    if (a.kind == LH_FINISH_PER_VISIT) return (float)((double)a.factor * (double)x / (double)n);
    if (n <= 1) return 0.0f; /* one number has no deviation, whatever rounding says */
    double mean = (double)x / (double)n;
    return sqrtf((float)fmax(0.0, (double)squares / (double)n - mean * mean));
}

/* blockIdx.y: rows [heads * parts]; a thread a slot. */
static __global__ void finish_kernel(const __grid_constant__ finish_job job)
{
    const lh_finish_scores_args &a = job.args;
    int64_t row = blockIdx.y, h = row / a.parts, c = row % a.parts, len = job.kv.len[h];
    const int32_t *positions = job.kv.positions ? job.kv.positions + job.kv.offset[h] : NULL;
    const float *x = lh_slot_at(&a.x, h, 0, c), *squares = NULL;
    if (a.kind == LH_FINISH_DEVIATION) squares = lh_slot_at(&a.squares, h, 0, c);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float n = a.kind == LH_FINISH_PLAIN ? 0.0f : visits(a, positions ? positions[s] : s);
        a.y[row * a.ld + s] = finished(a, x[s * a.x.step], squares ? squares[s * a.squares.step] : 0.0f, n);
    }
}

/* Lengths are the device's: there are threads for `ld` slots of every row. */
lh_status lh_cuda_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    dim3 grid(lh_blocks(a->ld, THREADS), (unsigned)(a->kv->heads * a->parts));
    return lh_launch(stream, "finish_scores", lh_shape{grid, THREADS, 0}, finish_kernel, finish_job{*a, *a->kv});
}

/* One head at column j. A maximum passes over what is no number, and a sum does not. */
static __device__ __forceinline__ float reduced(const lh_group_reduce_args &a, int64_t h, int64_t j)
{
    const float *x = a.x + h * a.group * a.x_ld + j;
    double sum = 0.0;
    float top = -INFINITY;
    for (int64_t i = 0; i < a.group; i++) {
        sum += (double)x[i * a.x_ld];
        top = fmaxf(top, x[i * a.x_ld]);
    }
    double joined = a.kind == LH_GROUP_MAX ? (double)top : a.kind == LH_GROUP_MEAN ? sum / (double)a.group : sum;
    return (float)((double)a.factor * joined);
}

/* A thread a column, of every gridDim.y-th head. */
static __global__ void reduce_kernel(lh_group_reduce_args a)
{
    for (int64_t j = lh_grid_first(); j < a.cols; j += lh_grid_step())
        for (int64_t h = blockIdx.y; h < a.heads; h += gridDim.y) a.y[h * a.y_ld + j] = reduced(a, h, j);
}

/* In place row h of y lies over a row of an earlier group or of its own: a thread then has all heads, in order. */
lh_status lh_cuda_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    dim3 grid(lh_blocks(a->cols, THREADS), a->y == a->x && a->heads > 0 ? 1u : (unsigned)a->heads);
    return lh_launch(stream, "group_reduce", lh_shape{grid, THREADS, 0}, reduce_kernel, *a);
}

/* ---- shapes ---- */

/* tops[h] = the largest prior that competes, 0 at least. What is not negative has the order of its bits. */
static __global__ void prior_top_kernel(lh_apply_prior_args a, unsigned *tops)
{
    __shared__ float room[LH_WARP];
    int64_t h = blockIdx.y, len = a.len[h];
    float top = 0.0f;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float x = a.state[h * a.ld + s] == LH_ENTRY_COMPETES ? a.prior[h * a.ld + s] : 0.0f;
        top = x > top ? x : top; /* a NaN is no maximum */
    }
    top = lh_block_max(top, room);
    if (threadIdx.x == 0 && top > 0.0f) atomicMax(tops + h, __float_as_uint(top));
}

static __global__ void apply_prior_kernel(lh_apply_prior_args a, const unsigned *tops)
{
    int64_t h = blockIdx.y, len = a.len[h];
    float top = __uint_as_float(tops[h]);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t at = h * a.ld + s;
        if (a.state[at] == LH_ENTRY_COMPETES) a.y[at] = top == 0.0f ? 0.0f : a.y[at] * (a.prior[at] / top);
    }
}

lh_status lh_cuda_apply_prior(lh_stream *stream, const lh_apply_prior_args *a)
{
    unsigned *tops = NULL;
    lh_shape shape = lh_over_slots(a->heads, a->ld, THREADS, SLOTS);
    int64_t bytes = a->heads * (int64_t)sizeof *tops;
    if (a->heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &tops, bytes));
    LH_TRY(lh_stream_zero(stream, tops, bytes));
    LH_TRY(lh_launch(stream, "apply_prior", shape, prior_top_kernel, *a, tops));
    LH_TRY(lh_launch(stream, "apply_prior", shape, apply_prior_kernel, *a, (const unsigned *)tops));
    return LH_OK;
}
