/* Scores of single slots: a thread per slot, blockIdx.y a head. They move each number once; only apply_prior reads its
 * priors twice, for their maximum. */
#include "kernels/cuda/entries.cuh"

extern "C" {
#include "kernels/slotwise.h"
}

enum { THREADS = 256, SLOTS = 4 * THREADS };

/* ---- statistics as scores, and groups of query heads ---- */

typedef struct finish_job {
    lh_finish_scores_args args;
    lh_ragged kv;
} finish_job;

/* In f64 where numbers cancel: cards are slow at it, but this waits for memory. */
static __device__ __forceinline__ float finished(const lh_finish_scores_args &a, float x, float squares, float n)
{
    if (a.kind == LH_FINISH_PLAIN) return a.factor * x;
    if (a.kind == LH_FINISH_ROOT) return sqrtf(a.factor * x);
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
    const int32_t *positions = lh_positions_of(&job.kv, h);
    const float *x = lh_slot_at(&a.x, h, 0, c), *squares = NULL;
    if (a.kind == LH_FINISH_DEVIATION) squares = lh_slot_at(&a.squares, h, 0, c);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float n = a.kind == LH_FINISH_PLAIN ? 0.0f : (float)lh_visits_of(&a, positions ? positions[s] : (double)s);
        a.y[row * a.ld + s] = finished(a, x[s * a.x.step], squares ? squares[s * a.squares.step] : 0.0f, n);
    }
}

/* Lengths are the device's: there are threads for `ld` slots of every row. */
lh_status lh_cuda_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    dim3 grid(lh_blocks(a->ld, THREADS), (unsigned)(a->kv->heads * a->parts));
    return lh_launch(stream, "finish_scores", lh_shape{grid, THREADS, 0}, finish_kernel, finish_job{*a, *a->kv});
}

/* A thread a column, of every gridDim.y-th head. */
static __global__ void reduce_kernel(lh_group_reduce_args a)
{
    for (int64_t j = lh_grid_first(); j < a.cols; j += lh_grid_step())
        for (int64_t h = blockIdx.y; h < a.heads; h += gridDim.y) a.y[h * a.y_ld + j] = lh_reduced(&a, h, j);
}

/* In place row h of y lies over a row of an earlier group or of its own: a thread then has all heads, in order. */
lh_status lh_cuda_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    dim3 grid(lh_blocks(a->cols, THREADS), a->y == a->x && a->heads > 0 ? 1u : (unsigned)a->heads);
    return lh_launch(stream, "group_reduce", lh_shape{grid, THREADS, 0}, reduce_kernel, *a);
}

/* ---- shapes ---- */

/* ---- the largest of what competes ---- */

/* Numbers of the slots of heads, of which those that compete count; the largest absolute one goes to tops[h * step],
 * which are 0 at first. */
typedef struct top_job {
    unsigned *tops;
    const float *x;
    const uint8_t *state;
    const int64_t *len;
    int64_t ld, step;
} top_job;

/* Floats that are not negative have the order of their bits. */
static __global__ void top_kernel(top_job a)
{
    __shared__ float room[LH_WARP];
    int64_t h = blockIdx.y, len = a.len[h];
    float top = 0.0f;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float x = a.state[h * a.ld + s] == LH_ENTRY_COMPETES ? fabsf(a.x[h * a.ld + s]) : 0.0f;
        top = x > top ? x : top; /* a NaN is no maximum */
    }
    top = lh_block_max(top, room);
    if (threadIdx.x == 0 && top > 0.0f) atomicMax(a.tops + h * a.step, __float_as_uint(top));
}

lh_status lh_cuda_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    top_job job = {(unsigned *)a->y, a->scores, a->state, a->len, a->ld, 0};
    LH_TRY(lh_stream_zero(stream, a->y, (int64_t)sizeof *a->y));
    return lh_launch(stream, "max_score", lh_over_slots(a->heads, a->ld, THREADS, SLOTS), top_kernel, job);
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
    LH_TRY(lh_launch(stream, "apply_prior", shape, top_kernel, top_job{tops, a->prior, a->state, a->len, a->ld, 1}));
    LH_TRY(lh_launch(stream, "apply_prior", shape, apply_prior_kernel, *a, (const unsigned *)tops));
    return LH_OK;
}

/* ---- DefensiveKV ---- */

typedef struct head_sums {
    double sums[2]; /* of scores, of norms */
    int64_t count;
} head_sums;

/* A block has a head. */
static __global__ void head_sums_kernel(lh_defend_scores_args a, head_sums *heads)
{
    __shared__ double room[LH_WARP];
    int64_t h = blockIdx.x, len = a.len[h];
    double scores = 0.0, norms = 0.0, count = 0.0;
    for (int64_t s = threadIdx.x; s < len; s += THREADS) {
        if (a.state[h * a.ld + s] != LH_ENTRY_COMPETES) continue;
        scores += (double)a.y[h * a.ld + s];
        if (a.norms.at) norms += (double)*lh_slot_at(&a.norms, h, s, 0);
        count += 1.0;
    }
    scores = lh_block_sum(scores, room);
    norms = lh_block_sum(norms, room);
    count = lh_block_sum(count, room);
    if (threadIdx.x == 0) heads[h] = head_sums{{scores, norms}, (int64_t)count};
}

static __global__ void defend_scores_kernel(lh_defend_scores_args a, const head_sums *heads)
{
    int64_t h = blockIdx.y, len = a.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t at = h * a.ld + s;
        float norm = a.norms.at ? *lh_slot_at(&a.norms, h, s, 0) : -1.0f;
        if (a.state[at] == LH_ENTRY_COMPETES)
            a.y[at] = lh_defended(a.y[at], norm, heads[h].sums, heads[h].count, a.raise);
    }
}

lh_status lh_cuda_defend_scores(lh_stream *stream, const lh_defend_scores_args *a)
{
    head_sums *heads = NULL;
    if (a->heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &heads, a->heads * (int64_t)sizeof *heads));
    LH_TRY(lh_launch(stream, "defend_scores", lh_shape{dim3((unsigned)a->heads), THREADS, 0}, head_sums_kernel, *a,
                     heads));
    LH_TRY(lh_launch(stream, "defend_scores", lh_over_slots(a->heads, a->ld, THREADS, SLOTS), defend_scores_kernel, *a,
                     (const head_sums *)heads));
    return LH_OK;
}

/* ---- one keep set for all heads ---- */

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
