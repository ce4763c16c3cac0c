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

/* ---- the largest of what competes ---- */

/* The largest absolute number of the block's slots of a row that compete, in *top, which is 0 at first. Floats that are
 * not negative have the order of their bits. */
static __device__ void find_top(unsigned *top, const float *x, const uint8_t *state, int64_t len)
{
    __shared__ float room[LH_WARP];
    float mine = 0.0f;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float size = state[s] == LH_ENTRY_COMPETES ? fabsf(x[s]) : 0.0f;
        mine = size > mine ? size : mine; /* a NaN is no maximum */
    }
    mine = lh_block_max(mine, room);
    if (threadIdx.x == 0 && mine > 0.0f) atomicMax(top, __float_as_uint(mine));
}

typedef struct max_job {
    lh_max_score_args args; /* of these caches; its kv is not used */
    lh_caches caches;
} max_job;

/* blockIdx.y: the head of a cache. */
static __global__ void max_kernel(const __grid_constant__ max_job job)
{
    const lh_max_score_args &a = job.args;
    int64_t row = blockIdx.y, h;
    const lh_ragged *kv = lh_cache_of_row(job.caches.at, row, &h);
    int64_t b = row / kv->heads;
    find_top((unsigned *)a.y + b, a.scores + b * a.scores_step + h * a.ld, a.state + row * a.ld, kv->len[h]);
}

lh_status lh_cuda_max_score(lh_stream *stream, const lh_max_score_args *a)
{
    LH_TRY(lh_stream_zero(stream, a->y, a->batch * (int64_t)sizeof *a->y));
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        max_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.y += from;
        job.args.scores += from * a->scores_step;
        job.args.state += job.caches.first * a->ld;
        LH_TRY(lh_launch(stream, "max_score", lh_over_slots(job.caches.rows, a->ld, THREADS, SLOTS), max_kernel, job));
    }
    return LH_OK;
}

static __global__ void prior_tops_kernel(lh_apply_prior_args a, unsigned *tops)
{
    int64_t h = blockIdx.y;
    find_top(tops + h, a.prior + h * a.ld, a.state + h * a.ld, a.len[h]);
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
    LH_TRY(lh_launch(stream, "apply_prior", shape, prior_tops_kernel, *a, tops));
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

typedef struct add_job {
    lh_add_heads_args args; /* of these caches; its kv is not used */
    lh_caches caches;
} add_job;

/* blockIdx.y: the cache. A thread per column takes the heads in order. */
static __global__ void add_heads_kernel(const __grid_constant__ add_job job)
{
    const lh_add_heads_args &a = job.args;
    const lh_ragged &kv = job.caches.at[blockIdx.y];
    const float *scores = a.scores + blockIdx.y * a.scores_step;
    double scale = lh_joint_scale(a.top[blockIdx.y], a.all_heads);
    for (int64_t s = lh_grid_first(); s < a.cols; s += lh_grid_step()) {
        int64_t sum = 0;
        for (int64_t h = 0; h < kv.heads; h++) {
            double x = s < kv.len[h] ? (double)scores[h * a.ld + s] * scale : 0.0;
            sum += x == x ? (int64_t)llrint(x) : 0;
        }
        a.sums[blockIdx.y * a.cols + s] = sum;
    }
}

lh_status lh_cuda_add_heads(lh_stream *stream, const lh_add_heads_args *a)
{
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        add_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.sums += from * a->cols;
        job.args.scores += from * a->scores_step;
        job.args.top += from;
        dim3 grid(lh_blocks(a->cols, THREADS), (unsigned)job.caches.count);
        LH_TRY(lh_launch(stream, "add_heads", lh_shape{grid, THREADS, 0}, add_heads_kernel, job));
    }
    return LH_OK;
}
