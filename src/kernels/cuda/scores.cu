/* Scores of slots: a thread per slot, blockIdx.y a head. Each number is moved once; only apply_prior reads its priors
 * twice, for their maximum. */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/product.cuh"

extern "C" {
#include "kernels/slotwise.h"
}

enum { THREADS = 256, SLOTS = 4 * THREADS };

/* ---- statistics as scores, and groups of query heads ---- */

typedef struct finish_job {
    lh_finish_scores_args args;
    lh_ragged kv;
} finish_job;

/* In f64 where numbers cancel: slow on GPUs, but memory is the bottleneck. */
static __device__ __forceinline__ float finished(const lh_finish_scores_args &a, float x, float squares, float n)
{
    if (a.kind == LH_FINISH_PLAIN) return a.factor * x;
    if (a.kind == LH_FINISH_ROOT) return sqrtf(a.factor * x);
    if (n <= 0) return 0.0f;
    if (a.kind == LH_FINISH_PER_VISIT) return (float)((double)a.factor * (double)x / (double)n);
    if (n <= 1) return 0.0f; /* one number has no deviation, regardless of rounding */
    double mean = (double)x / (double)n;
    return sqrtf((float)fmax(0.0, (double)squares / (double)n - mean * mean));
}

/* blockIdx.y: rows [heads * parts]; a thread per slot. */
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

/* Lengths are on the device: there are threads for `ld` slots of every row. */
lh_status lh_cuda_finish_scores(lh_stream *stream, const lh_finish_scores_args *a)
{
    dim3 grid(lh_blocks(a->ld, THREADS), (unsigned)(a->kv->heads * a->parts));
    return lh_launch(stream, "finish_scores", lh_shape{grid, THREADS, 0}, finish_kernel, finish_job{*a, *a->kv});
}

/* A thread per column, of every gridDim.y-th head. */
static __global__ void reduce_kernel(lh_group_reduce_args a)
{
    for (int64_t j = lh_grid_first(); j < a.cols; j += lh_grid_step())
        for (int64_t h = blockIdx.y; h < a.heads; h += gridDim.y) a.y[h * a.y_ld + j] = lh_reduced(&a, h, j);
}

/* In place, row h of y overwrites a row of the same or an earlier group: then a thread has all heads, in order. */
lh_status lh_cuda_group_reduce(lh_stream *stream, const lh_group_reduce_args *a)
{
    dim3 grid(lh_blocks(a->cols, THREADS), a->y == a->x && a->heads > 0 ? 1u : (unsigned)a->heads);
    return lh_launch(stream, "group_reduce", lh_shape{grid, THREADS, 0}, reduce_kernel, *a);
}

/* ---- the largest competing score ---- */

/* *top = the largest absolute number of the block's competing slots of a row, initially 0. Non-negative floats have the
 * order of their bits. */
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
    lh_max_score_args args; /* for these caches; its kv is not used */
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
    double sums[2]; /* of scores, and of norms */
    int64_t count;
} head_sums;

/* One block per head. */
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
    lh_add_heads_args args; /* for these caches; its kv is not used */
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

/* ---- LagKV ----
 *
 * A block has a part of a head. Bound by reading the part and the next one from L2; the ranks compare every two entries
 * of a part. */

enum { LAG_THREADS = 256 };

typedef struct lh_lags {
    lh_lag_scores_args args;
    lh_ragged kv;
    float *ranges; /* [heads, parts, 2, head_dim]: minimum of the next part, and 1 / (maximum - minimum) */
    float *e;      /* [2, heads, ld]: deviations, and the sums of their softmaxes */
    int64_t parts; /* maximum parts of a head */
} lh_lags;

/* The ranges of the channels of the next part, then the deviations of the part. */
template <typename T>
static __device__ void find_deviations(const lh_lags &l, const T *part, float *least, float *e)
{
    int64_t d = l.kv.head_dim, lag = l.args.lag;
    float *scales = least + d;
    __syncthreads(); /* the ranges of keys have been read */
    for (int64_t i = threadIdx.x; i < d; i += LAG_THREADS) {
        float low = lh_number(part[lag * d + i]), high = low;
        for (int64_t t = 1; t < lag; t++) {
            float x = lh_number(part[(lag + t) * d + i]);
            low = fminf(low, x);
            high = fmaxf(high, x);
        }
        least[i] = low;
        scales[i] = high > low ? 1.0f / (high - low) : 0.0f;
    }
    __syncthreads();
    for (int64_t s = lh_warp(); s < lag; s += LAG_THREADS / LH_WARP) {
        float sum = 0.0f, squares = 0.0f;
        for (int64_t i = lh_lane(); i < d; i += LH_WARP) sum += (lh_number(part[s * d + i]) - least[i]) * scales[i];
        float mean = lh_warp_sum(sum) / (float)d;
        for (int64_t i = lh_lane(); i < d; i += LH_WARP) {
            float x = (lh_number(part[s * d + i]) - least[i]) * scales[i] - mean;
            squares = fmaf(x, x, squares);
        }
        squares = lh_warp_sum(squares);
        if (lh_lane() == 0) e[s] = d > 1 ? sqrtf(squares / (float)(d - 1)) : 0.0f;
    }
    __syncthreads();
}

/* weights += half of the softmax of the deviations in e. */
static __device__ void add_softmax(const float *e, int64_t lag, float *weights, float *room)
{
    float top = 0.0f, sum = 0.0f;
    for (int64_t s = threadIdx.x; s < lag; s += LAG_THREADS) top = fmaxf(top, e[s]);
    top = lh_block_max(top, room);
    for (int64_t s = threadIdx.x; s < lag; s += LAG_THREADS) sum += expf(e[s] - top);
    sum = lh_block_sum(sum, room);
    for (int64_t s = threadIdx.x; s < lag; s += LAG_THREADS) weights[s] += expf(e[s] - top) / sum / 2.0f;
}

template <typename T>
static __global__ void lag_scores_kernel(lh_lags l)
{
    __shared__ float room[LH_WARP];
    int64_t h = blockIdx.y, d = l.kv.head_dim, lag = l.args.lag, len = l.kv.len[h], first = l.args.first,
            end = lh_lag_end(len, first, lag);
    float *y = l.args.y + h * l.args.ld;
    for (int64_t part = blockIdx.x; first + part * lag < end; part += gridDim.x) {
        int64_t at = first + part * lag, from = (l.kv.offset[h] + at) * d;
        float *ranges = l.ranges + (h * l.parts + part) * 2 * d, *deviations = l.e + h * l.args.ld + at;
        float *e = deviations + l.kv.heads * l.args.ld;
        for (int64_t s = threadIdx.x; s < lag; s += LAG_THREADS) e[s] = 0.0f;
        find_deviations(l, (const T *)l.kv.k + from, ranges, deviations);
        add_softmax(deviations, lag, e, room);
        find_deviations(l, (const T *)l.kv.v + from, ranges, deviations);
        add_softmax(deviations, lag, e, room);
        __syncthreads();
        for (int64_t s = threadIdx.x; s < lag; s += LAG_THREADS) {
            int64_t below = 0;
            for (int64_t t = 0; t < lag; t++) below += e[t] < e[s] || (t > s && e[t] == e[s]);
            y[at + s] = (float)below / (float)lag;
        }
    }
}

static __global__ void lag_rest_kernel(lh_lags l)
{
    int64_t h = blockIdx.y, len = l.kv.len[h], first = l.args.first, end = lh_lag_end(len, first, l.args.lag);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step())
        if (s < first || s >= end) l.args.y[h * l.args.ld + s] = lh_lag_rest(s, first, end, len);
}

lh_status lh_cuda_lag_scores(lh_stream *stream, const lh_lag_scores_args *a)
{
    int64_t heads = a->kv->heads, d = a->kv->head_dim;
    lh_lags l = {*a, *a->kv, NULL, NULL, a->ld / a->lag};
    auto *kernel = a->kv->type == LH_F32 ? lag_scores_kernel<float> : lag_scores_kernel<__nv_bfloat16>;
    if (heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &l.ranges, heads * 2 * (l.parts * d + a->ld) * (int64_t)sizeof *l.ranges));
    l.e = l.ranges + heads * l.parts * 2 * d;
    LH_TRY(lh_launch(stream, "lag_scores", lh_shape{dim3(lh_blocks(l.parts, 1), (unsigned)heads), LAG_THREADS, 0},
                     kernel, l));
    LH_TRY(lh_launch(stream, "lag_scores", lh_over_slots(heads, a->ld, LAG_THREADS, LAG_THREADS), lag_rest_kernel, l));
    return LH_OK;
}

/* ---- expected attention: quadratic forms of keys ----
 *
 * A block has 64 entries of a head; the product of an entry and the matrix is multiplied with the entry and never
 * stored (product.cuh). Bound by arithmetic, 2 * head_dim^2 operations per entry. */

enum { EXPECTED_THREADS = 256, EXPECTED_SLOTS = 4 * EXPECTED_THREADS, MASS_SLOTS = 4096 };

/* forms[i] = half * x'Mx + factor * m.x, with x the entry of this thread's row i of the tile; count entries. */
template <typename T>
struct lh_forms {
    const T *entries; /* [count, depth] */
    const float *matrix, *mean;
    int64_t count, depth;
    float half, factor;
};

template <typename T>
static __device__ void find_forms(float (&forms)[8], const lh_forms<T> &f, lh_product_room *room)
{
    int64_t at = (int64_t)threadIdx.x % PRODUCT_ROWS;
    lh_factors<T, float> factors = {at < f.count ? f.entries + at * f.depth : NULL, f.matrix, f.depth, f.depth,
                                    f.depth};
    for (int i = 0; i < 8; i++) forms[i] = 0.0f;
    for (int64_t first = 0; first < f.depth; first += PRODUCT_COLS) {
        float sums[8][8];
        lh_product_tile(sums, factors, first, room);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int64_t col = first + lh_product_col(j);
            float m = col < f.depth ? f.factor * f.mean[col] : 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int64_t row = lh_product_row(i);
                if (row < f.count && col < f.depth)
                    forms[i] = fmaf(fmaf(f.half, sums[i][j], m), lh_number(f.entries[row * f.depth + col]), forms[i]);
            }
        }
    }
    for (int i = 0; i < 8; i++) forms[i] = lh_product_across(forms[i]);
}

typedef struct lh_expected {
    lh_expected_scores_args args;
    lh_ragged kv;
    unsigned *row_maxima; /* [query heads] keys of the largest competing logits */
    double *denominators; /* [query heads, parts] of MASS_SLOTS slots */
    int64_t parts;
} lh_expected;

static __device__ __forceinline__ int64_t kv_head_of(const lh_expected &e, int64_t i)
{
    return (e.args.map.first + i) / e.args.map.group;
}

static __device__ __forceinline__ int competes(const lh_expected &e, int64_t h, int64_t s)
{
    return e.args.state[h * e.args.ld + s] == LH_ENTRY_COMPETES;
}

/* y = logits. */
template <typename T>
static __global__ void __launch_bounds__(PRODUCT_THREADS) expected_logits_kernel(lh_expected e)
{
    __shared__ lh_product_room room;
    int64_t i = blockIdx.y, h = kv_head_of(e, i), d = e.kv.head_dim, len = e.kv.len[h];
    const float *biases = lh_bias_of(&e.kv, h);
    float scale = e.args.scale;
    unsigned row_max = 0;
    for (int64_t first = (int64_t)blockIdx.x * PRODUCT_ROWS; first < len; first += (int64_t)gridDim.x * PRODUCT_ROWS) {
        const T *entries = (const T *)e.kv.k + (e.kv.offset[h] + first) * d;
        lh_forms<T> f = {
            entries, e.args.covariances + i * d * d, e.args.means + i * d, len - first, d, 0.5f * scale * scale, scale};
        float forms[8];
        find_forms(forms, f, &room);
        for (int n = 0; n < 8; n++) {
            int64_t row = lh_product_row(n);
            if (threadIdx.x % 16 != 0 || row >= f.count) continue;
            float logit = forms[n] + (biases ? biases[first + row] : 0.0f);
            e.args.y[i * e.args.ld + first + row] = logit;
            if (competes(e, h, first + row)) row_max = max(row_max, lh_score_key(logit));
        }
    }
    if (row_max) atomicMax(e.row_maxima + i, row_max);
}

/* The weight of slot s before normalisation. */
static __device__ __forceinline__ float weight_of(const lh_expected &e, int64_t i, int64_t s)
{
    unsigned key = e.row_maxima[i];
    float row_max = __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
    return expf(e.args.y[i * e.args.ld + s] - row_max);
}

/* blockIdx.x: the part. */
static __global__ void expected_masses_kernel(lh_expected e)
{
    __shared__ double room[LH_WARP];
    int64_t i = blockIdx.y, h = kv_head_of(e, i), len = e.kv.len[h], first = (int64_t)blockIdx.x * MASS_SLOTS;
    double denominator = 0.0;
    if (first >= len) return;
    for (int64_t s = first + threadIdx.x; s < first + MASS_SLOTS && s < len; s += EXPECTED_THREADS)
        if (competes(e, h, s)) denominator += weight_of(e, i, s);
    denominator = lh_block_sum(denominator, room);
    if (threadIdx.x == 0) e.denominators[i * e.parts + blockIdx.x] = denominator;
}

static __global__ void expected_weights_kernel(lh_expected e)
{
    __shared__ double room[LH_WARP];
    int64_t i = blockIdx.y, h = kv_head_of(e, i), len = e.kv.len[h], parts = (len + MASS_SLOTS - 1) / MASS_SLOTS;
    double denominator = 0.0;
    for (int64_t p = threadIdx.x; p < parts; p += EXPECTED_THREADS) denominator += e.denominators[i * e.parts + p];
    denominator = lh_block_sum(denominator, room);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step())
        e.args.y[i * e.args.ld + s] = competes(e, h, s) ? (float)(weight_of(e, i, s) / denominator) : 0.0f;
}

lh_status lh_cuda_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    int64_t heads = a->map.heads, parts = (a->ld + MASS_SLOTS - 1) / MASS_SLOTS;
    lh_expected e = {*a, *a->kv, NULL, NULL, parts};
    lh_shape logits = lh_over_slots(heads, a->ld, PRODUCT_THREADS, PRODUCT_ROWS);
    lh_shape denominators = {dim3((unsigned)parts, (unsigned)heads), EXPECTED_THREADS, 0};
    auto *kernel = a->kv->type == LH_F32 ? expected_logits_kernel<float> : expected_logits_kernel<__nv_bfloat16>;
    if (heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &e.denominators,
                             heads * (parts * (int64_t)sizeof *e.denominators + (int64_t)sizeof *e.row_maxima)));
    e.row_maxima = (unsigned *)(e.denominators + heads * parts);
    LH_TRY(lh_stream_zero(stream, e.row_maxima, heads * (int64_t)sizeof *e.row_maxima));
    LH_TRY(lh_launch(stream, "expected_scores", logits, kernel, e));
    LH_TRY(lh_launch(stream, "expected_scores", denominators, expected_masses_kernel, e));
    LH_TRY(lh_launch(stream, "expected_scores", lh_over_slots(heads, a->ld, EXPECTED_THREADS, EXPECTED_SLOTS),
                     expected_weights_kernel, e));
    return LH_OK;
}

/* ---- sums of rows and of their outer products ----
 *
 * In double: products of two f32 numbers are exact, so every result has the bits of the definition. A block has 64 x 64
 * products of a head, a thread 4 x 4; rows pass through shared memory 16 at a time, in order. Bound by arithmetic: 2 *
 * dim^2 operations per row and head, in double at half the rate of f32. */

enum { MOMENTS_THREADS = 256, TILE = 64, ROWS = 16, EACH = 4 };

template <typename T>
static __device__ __forceinline__ double row_number(const lh_row_moments_args &a, int64_t r, int64_t i, int64_t c)
{
    return r < a.rows && c < a.dim ? (double)lh_number(((const T *)a.x)[r * a.x_ld + i * a.dim + c]) : 0.0;
}

template <typename T>
static __global__ void __launch_bounds__(MOMENTS_THREADS) row_products_kernel(lh_row_moments_args a)
{
    __shared__ double left[ROWS][TILE], right[ROWS][TILE];
    int64_t i = blockIdx.z, x0 = (int64_t)blockIdx.y * TILE, y0 = (int64_t)blockIdx.x * TILE;
    int x = (int)threadIdx.x / 16 * EACH, y = (int)threadIdx.x % 16;
    double sums[EACH][EACH] = {};
    for (int64_t first = 0; first < a.rows; first += ROWS) {
        __syncthreads();
        for (int n = (int)threadIdx.x; n < ROWS * TILE; n += MOMENTS_THREADS) {
            left[n / TILE][n % TILE] = row_number<T>(a, first + n / TILE, i, x0 + n % TILE);
            right[n / TILE][n % TILE] = row_number<T>(a, first + n / TILE, i, y0 + n % TILE);
        }
        __syncthreads();
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int n = 0; n < EACH * EACH; n++)
                sums[n / EACH][n % EACH] =
                    fma(left[r][x + n / EACH], right[r][y + n % EACH * 16], sums[n / EACH][n % EACH]);
        }
    }
    for (int n = 0; n < EACH * EACH; n++) {
        int64_t row = x0 + x + n / EACH, col = y0 + y + n % EACH * 16;
        if (row < a.dim && col < a.dim) a.products[(i * a.dim + row) * a.dim + col] += sums[n / EACH][n % EACH];
    }
}

template <typename T>
static __global__ void row_sums_kernel(lh_row_moments_args a)
{
    for (int64_t c = lh_grid_first(); c < a.heads * a.dim; c += lh_grid_step()) {
        double sum = 0.0;
#pragma unroll 8
        for (int64_t r = 0; r < a.rows; r++) sum += (double)lh_number(((const T *)a.x)[r * a.x_ld + c]);
        a.sums[c] += sum;
    }
}

template <typename T>
static lh_status add_rows(lh_stream *stream, const lh_row_moments_args *a)
{
    unsigned tiles = (unsigned)((a->dim + TILE - 1) / TILE);
    lh_shape sums = {dim3(lh_blocks(a->heads * a->dim, LH_WARP)), LH_WARP, 0};
    if (a->sums) LH_TRY(lh_launch(stream, "row_moments", sums, row_sums_kernel<T>, *a));
    LH_TRY(lh_launch(stream, "row_moments", lh_shape{dim3(tiles, tiles, (unsigned)a->heads), MOMENTS_THREADS, 0},
                     row_products_kernel<T>, *a));
    return LH_OK;
}

lh_status lh_cuda_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    return a->type == LH_F32 ? add_rows<float>(stream, a) : add_rows<__nv_bfloat16>(stream, a);
}

/* ---- operations on slots (slotwise.h): blockIdx.y is the head, a thread has a strided subset of its slots ---- */

enum { SLOTWISE_THREADS = 256, SLOTWISE_SLOTS = 4 * SLOTWISE_THREADS };

static __device__ __forceinline__ lh_slot_range own_slots(int64_t end)
{
    return lh_slot_range{lh_grid_first(), end, lh_grid_step()};
}

#define LH_SLOTWISE(op, rows, cols, cost)                                                                           \
    static __global__ void op##_kernel(lh_##op##_args args)                                                         \
    {                                                                                                               \
        const lh_##op##_args *a = &args;                                                                            \
        lh_##op##_slots(a, blockIdx.y, own_slots((cols)));                                                          \
    }                                                                                                               \
    lh_status lh_cuda_##op(lh_stream *stream, const lh_##op##_args *a)                                              \
    {                                                                                                               \
        return lh_launch(stream, #op, lh_over_slots((rows), (cols), SLOTWISE_THREADS, SLOTWISE_SLOTS), op##_kernel, \
                         *a);                                                                                       \
    }

/* The description of a cache is host memory: a kernel gets a copy. */
#define LH_SLOTWISE_KV(op, cost)                                                               \
    static __global__ void op##_kernel(lh_##op##_args a, lh_ragged kv)                         \
    {                                                                                          \
        a.kv = &kv;                                                                            \
        lh_##op##_slots(&a, blockIdx.y, own_slots(a.ld));                                      \
    }                                                                                          \
    lh_status lh_cuda_##op(lh_stream *stream, const lh_##op##_args *a)                         \
    {                                                                                          \
        lh_shape shape = lh_over_slots(a->kv->heads, a->ld, SLOTWISE_THREADS, SLOTWISE_SLOTS); \
        return lh_launch(stream, #op, shape, op##_kernel, *a, *a->kv);                         \
    }
LH_SLOTWISE_OPS(LH_SLOTWISE, LH_SLOTWISE_KV)
LH_SLOTWISE_KV(gumbel_scores, 16)

typedef struct classify_job {
    lh_classify_args args;
    lh_caches caches;
    lh_position_lines lines[LH_CACHES_AT_ONCE];
} classify_job;

static __global__ void classify_kernel(const __grid_constant__ classify_job job)
{
    lh_classify_args a = job.args;
    a.kv = job.caches.at;
    a.lines = job.lines;
    lh_classify_slots(&a, blockIdx.y, own_slots(a.ld));
}

lh_status lh_cuda_classify(lh_stream *stream, const lh_classify_args *a)
{
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        classify_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.state += job.caches.first * a->ld;
        if (a->scores) job.args.scores += from * a->scores_step;
        for (int64_t b = 0; b < LH_CACHES_AT_ONCE && from + b < a->batch; b++) job.lines[b] = a->lines[from + b];
        LH_TRY(lh_launch(stream, "classify", lh_over_slots(job.caches.rows, a->ld, SLOTWISE_THREADS, SLOTWISE_SLOTS),
                         classify_kernel, job));
    }
    return LH_OK;
}
