/* LagKV: a block has a part of a head. Bound by reading the part and the next one from the cache of the device; the
 * ranks compare every two entries of a part. */
#include "kernels/cuda/entries.cuh"

enum { THREADS = 256 };

typedef struct lh_lags {
    lh_lag_scores_args args;
    lh_ragged kv;
    float *ranges; /* [heads, parts, 2, head_dim]: least numbers of the next part, and 1 / (most - least) */
    float *e;      /* [2, heads, ld]: deviations, and the sums of their softmaxes */
    int64_t parts; /* of the longest head at most */
} lh_lags;

/* Channels of the next part, and then the deviations of the part. */
template <typename T>
static __device__ void find_deviations(const lh_lags &l, const T *part, float *least, float *e)
{
    int64_t d = l.kv.head_dim, lag = l.args.lag;
    float *scales = least + d;
    __syncthreads(); /* what was made of the ranges of keys */
    for (int64_t i = threadIdx.x; i < d; i += THREADS) {
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
    for (int64_t s = lh_warp(); s < lag; s += THREADS / LH_WARP) {
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
    for (int64_t s = threadIdx.x; s < lag; s += THREADS) top = fmaxf(top, e[s]);
    top = lh_block_max(top, room);
    for (int64_t s = threadIdx.x; s < lag; s += THREADS) sum += expf(e[s] - top);
    sum = lh_block_sum(sum, room);
    for (int64_t s = threadIdx.x; s < lag; s += THREADS) weights[s] += expf(e[s] - top) / sum / 2.0f;
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
        for (int64_t s = threadIdx.x; s < lag; s += THREADS) e[s] = 0.0f;
        find_deviations(l, (const T *)l.kv.k + from, ranges, deviations);
        add_softmax(deviations, lag, e, room);
        find_deviations(l, (const T *)l.kv.v + from, ranges, deviations);
        add_softmax(deviations, lag, e, room);
        __syncthreads();
        for (int64_t s = threadIdx.x; s < lag; s += THREADS) {
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
    LH_TRY(
        lh_launch(stream, "lag_scores", lh_shape{dim3(lh_blocks(l.parts, 1), (unsigned)heads), THREADS, 0}, kernel, l));
    LH_TRY(lh_launch(stream, "lag_scores", lh_over_slots(heads, a->ld, THREADS, THREADS), lag_rest_kernel, l));
    return LH_OK;
}
