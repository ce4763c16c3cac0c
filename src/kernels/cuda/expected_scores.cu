/* Expected attention: quadratic forms of keys. A block has 64 entries of a head; the product of an entry and the matrix
 * meets the entry again and is never stored (product.cuh). Bound by arithmetic, 2 * head_dim^2 operations an entry. */
#include "kernels/cuda/product.cuh"

enum { THREADS = 256, SLOTS = 4 * THREADS, MASS_SLOTS = 4096 };

/* forms[i] = half * x'Mx + factor * m.x, x the entry that is this thread's row i of the tile; count entries. */
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
    unsigned *row_maxima; /* [query heads] keys of the largest logits that compete */
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

/* The weight of slot s, before they are made to add up to 1. */
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
    for (int64_t s = first + threadIdx.x; s < first + MASS_SLOTS && s < len; s += THREADS)
        if (competes(e, h, s)) denominator += weight_of(e, i, s);
    denominator = lh_block_sum(denominator, room);
    if (threadIdx.x == 0) e.denominators[i * e.parts + blockIdx.x] = denominator;
}

static __global__ void expected_weights_kernel(lh_expected e)
{
    __shared__ double room[LH_WARP];
    int64_t i = blockIdx.y, h = kv_head_of(e, i), len = e.kv.len[h], parts = (len + MASS_SLOTS - 1) / MASS_SLOTS;
    double denominator = 0.0;
    for (int64_t p = threadIdx.x; p < parts; p += THREADS) denominator += e.denominators[i * e.parts + p];
    denominator = lh_block_sum(denominator, room);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step())
        e.args.y[i * e.args.ld + s] = competes(e, h, s) ? (float)(weight_of(e, i, s) / denominator) : 0.0f;
}

lh_status lh_cuda_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    int64_t heads = a->map.heads, parts = (a->ld + MASS_SLOTS - 1) / MASS_SLOTS;
    lh_expected e = {*a, *a->kv, NULL, NULL, parts};
    lh_shape logits = lh_over_slots(heads, a->ld, PRODUCT_THREADS, PRODUCT_ROWS);
    lh_shape denominators = {dim3((unsigned)parts, (unsigned)heads), THREADS, 0};
    auto *kernel = a->kv->type == LH_F32 ? expected_logits_kernel<float> : expected_logits_kernel<__nv_bfloat16>;
    if (heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &e.denominators,
                             heads * (parts * (int64_t)sizeof *e.denominators + (int64_t)sizeof *e.row_maxima)));
    e.row_maxima = (unsigned *)(e.denominators + heads * parts);
    LH_TRY(lh_stream_zero(stream, e.row_maxima, heads * (int64_t)sizeof *e.row_maxima));
    LH_TRY(lh_launch(stream, "expected_scores", logits, kernel, e));
    LH_TRY(lh_launch(stream, "expected_scores", denominators, expected_masses_kernel, e));
    LH_TRY(
        lh_launch(stream, "expected_scores", lh_over_slots(heads, a->ld, THREADS, SLOTS), expected_weights_kernel, e));
    return LH_OK;
}
