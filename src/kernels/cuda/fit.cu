/* Fitting biases and values to the attention of query rows: a block has a row, or a row of 32 x 32 tiles. Bound by
 * memory, in passes over data in L2; most of the time goes to the gemms between these operations. */
#include "kernels/cuda/entries.cuh"

extern "C" {
#include "kernels/elementwise.h"
}

enum { THREADS = 256, TILE = 32, TILE_THREADS = TILE * 8 };

/* ---- weights ---- */

/* One block for each row of each query head. */
static __global__ void __launch_bounds__(THREADS) row_weights_kernel(lh_row_weights_args a, lh_ragged kv)
{
    __shared__ float room[LH_WARP];
    const lh_observed &o = a.rows;
    int64_t n = blockIdx.x, i = n / o.rows, r = n - i * o.rows;
    const int32_t *positions = kv.positions ? kv.positions + kv.offset[0] + a.first : NULL;
    const float *bias = kv.bias ? kv.bias + kv.offset[0] + a.first : NULL;
    lh_visible_range visible = lh_visible_range_of(o.positions, o.until, o.logit.window, r);
    float lse = a.lse[r * a.lse_ld + i], gain = o.gains ? o.gains[r] : 1.0f, sum = 0.0f, *x = a.x + n * a.ld;
    int sees = lse != -INFINITY;
    for (int64_t s = threadIdx.x; s < a.cols; s += THREADS) {
        float logit = o.logit.scale * x[s], weight = 0.0f;
        if (o.logit.softcap > 0) logit = lh_softcapped(logit, o.logit.softcap);
        if (sees && lh_sees(visible, positions ? positions[s] : (int32_t)(a.first + s)))
            weight = expf(fmaf(gain, logit, bias ? bias[s] - lse : -lse));
        if (a.most > 0 && weight > a.most) weight = 0.0f;
        x[s] = weight;
        sum += weight;
    }
    sum = lh_block_sum(sum, room);
    if (a.missing && threadIdx.x == 0) a.missing[n] = sees ? 1.0f - sum : 0.0f;
}

lh_status lh_cuda_row_weights(lh_stream *stream, const lh_row_weights_args *a)
{
    lh_shape shape = {dim3((unsigned)(a->rows.rows * a->rows.map.heads)), THREADS, 0};
    return lh_launch(stream, "row_weights", shape, row_weights_kernel, *a, *a->rows.kv);
}

static __global__ void __launch_bounds__(THREADS) normalise_rows_kernel(lh_normalise_rows_args a)
{
    __shared__ float room[LH_WARP];
    float *x = a.x + (int64_t)blockIdx.x * a.ld, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) {
        float y = a.factors ? x[c] * a.factors[c] : x[c];
        x[c] = y;
        sum += y;
    }
    sum = lh_block_sum(sum, room);
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) x[c] = sum != 0 ? x[c] / sum : 0.0f;
}

lh_status lh_cuda_normalise_rows(lh_stream *stream, const lh_normalise_rows_args *a)
{
    return lh_launch(stream, "normalise_rows", lh_shape{dim3((unsigned)a->rows), THREADS, 0}, normalise_rows_kernel,
                     *a);
}

/* ---- transpose ---- */

template <typename Y, typename X>
static __global__ void __launch_bounds__(TILE_THREADS) transpose_kernel(lh_transpose_args a)
{
    __shared__ float room[TILE][TILE + 1];
    int64_t c0 = (int64_t)blockIdx.y * TILE;
    int lane = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    for (int64_t r0 = (int64_t)blockIdx.x * TILE; r0 < a.rows; r0 += (int64_t)gridDim.x * TILE) {
        __syncthreads(); /* `room` was read before */
        for (int i = first; i < TILE; i += TILE_THREADS / TILE)
            if (r0 + i < a.rows && c0 + lane < a.cols)
                room[i][lane] = lh_number(((const X *)a.x)[(r0 + i) * a.x_ld + c0 + lane]);
        __syncthreads();
        for (int i = first; i < TILE; i += TILE_THREADS / TILE)
            if (c0 + i < a.cols && r0 + lane < a.rows)
                lh_put((Y *)a.y + (c0 + i) * a.y_ld + r0 + lane, a.factor * room[lane][i]);
    }
}

lh_status lh_cuda_transpose(lh_stream *stream, const lh_transpose_args *a)
{
    typedef __nv_bfloat16 bf16;
    const int64_t most = 65535 * (int64_t)TILE; /* columns of a launch */
    auto *kernel = a->y_type == LH_F32
                       ? (a->x_type == LH_F32 ? transpose_kernel<float, float> : transpose_kernel<float, bf16>)
                       : (a->x_type == LH_F32 ? transpose_kernel<bf16, float> : transpose_kernel<bf16, bf16>);
    for (int64_t c = 0; c < a->cols; c += most) {
        lh_transpose_args part = *a;
        part.cols = a->cols - c < most ? a->cols - c : most;
        part.x = (const char *)a->x + c * lh_dtype_bytes(a->x_type);
        part.y = (char *)a->y + c * a->y_ld * lh_dtype_bytes(a->y_type);
        dim3 grid(lh_blocks(a->rows, TILE), (unsigned)((part.cols + TILE - 1) / TILE));
        LH_TRY(lh_launch(stream, "transpose", lh_shape{grid, TILE_THREADS, 0}, kernel, part));
    }
    return LH_OK;
}

/* ---- conjugate gradients ---- */

static __device__ __forceinline__ float quotient(float x, float y)
{
    return y > 0 ? x / y : 0.0f;
}

static __device__ float dot_of(const float *x, const float *y, int64_t n, float *room)
{
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum = fmaf(x[i], y[i], sum);
    return lh_block_sum(sum, room);
}

/* The strength of the ridge: every block computes it, in the same order. */
static __device__ float ridge_of(const lh_conjugate_gradients_args &a, float *room)
{
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) sum += a.diagonal[c];
    return a.ridge * lh_block_sum(sum, room) / (float)a.cols;
}

/* One block for each problem. */
static __global__ void __launch_bounds__(THREADS) conjugate_gradients_kernel(lh_conjugate_gradients_args a)
{
    __shared__ float room[LH_WARP];
    int64_t i = blockIdx.x, at = i * a.cols;
    float *x = a.x + at, *r = a.r + at, *p = a.p + at, t = ridge_of(a, room), before = 0.0f, step = 0.0f, energy = 0.0f;
    if (a.products) {
        const float *ap = a.products + i * a.n;
        float along = dot_of(ap, ap, a.n, room), length = dot_of(p, p, a.cols, room);
        before = a.energy[2 * i];
        step = quotient(before, fmaf(t, length, along));
    }
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) {
        float rest = r[c];
        if (a.products) {
            x[c] = fminf(fmaxf(fmaf(step, p[c], x[c]), a.low), a.high);
            rest -= step * fmaf(t, p[c], a.back[at + c]);
            r[c] = rest;
        }
        energy = fmaf(quotient(1.0f, a.diagonal[c] + t) * rest, rest, energy);
    }
    energy = lh_block_sum(energy, room);
    float begun = a.products ? a.energy[2 * i + 1] : energy, keep = quotient(energy, before);
    int is_left = energy > LH_CONJUGATE_END * begun;
    __syncthreads(); /* the energies have been read */
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) {
        float y = quotient(1.0f, a.diagonal[c] + t) * r[c];
        p[c] = !is_left ? 0.0f : a.products ? fmaf(keep, p[c], y) : y;
    }
    if (threadIdx.x == 0) {
        a.energy[2 * i] = is_left ? energy : 0.0f;
        a.energy[2 * i + 1] = begun;
    }
}

lh_status lh_cuda_conjugate_gradients(lh_stream *stream, const lh_conjugate_gradients_args *a)
{
    if (a->cols == 0) return LH_OK;
    return lh_launch(stream, "conjugate_gradients", lh_shape{dim3((unsigned)a->rows), THREADS, 0},
                     conjugate_gradients_kernel, *a);
}

static __global__ void __launch_bounds__(THREADS) mass_bias_kernel(lh_mass_bias_args a)
{
    __shared__ float room[LH_WARP];
    float along = dot_of(a.products, a.missing, a.n, room), length = dot_of(a.products, a.products, a.n, room);
    float step = fminf(fmaxf(quotient(along, length), 0.0f), 1.0f);
    for (int64_t c = threadIdx.x; c < a.cols; c += THREADS) {
        a.factors[c] = fmaf(step, a.x[c], 1.0f);
        a.bias[c] = log1pf(step * a.x[c]);
    }
}

lh_status lh_cuda_mass_bias(lh_stream *stream, const lh_mass_bias_args *a)
{
    return lh_launch(stream, "mass_bias", lh_shape{dim3(1), THREADS, 0}, mass_bias_kernel, *a);
}

/* ---- losses by the number of kept entries ---- */

/* One block for one number of the outputs of THREADS rows, one thread per row. parts: [tiles, dim, points + 1], for the
 * losses and, after these, for the energy. */
static __global__ void __launch_bounds__(THREADS) curve_parts_kernel(lh_curve_losses_args a, float *parts)
{
    __shared__ float room[LH_WARP];
    int64_t x = blockIdx.x, r = (int64_t)blockIdx.y * THREADS + threadIdx.x, step = (a.dim + 1) * a.n;
    const float *values = a.sums + x * a.n, *weights = a.sums + a.dim * a.n;
    float *own = parts + (blockIdx.y * a.dim + x) * (a.points + 1), value = 0.0f, mass = 0.0f;
    for (int64_t p = 0; r < a.n && p < a.points; p++) {
        value += values[p * step + r];
        mass += weights[p * step + r];
    }
    float last = quotient(value, mass), squares = lh_block_sum(last * last, room);
    if (threadIdx.x == 0) own[a.points] = squares;
    value = mass = 0.0f;
    for (int64_t p = 0; p < a.points; p++) {
        if (r < a.n) {
            value += values[p * step + r];
            mass += weights[p * step + r];
        }
        float lost = quotient(value, mass) - last;
        squares = lh_block_sum(lost * lost, room);
        if (threadIdx.x == 0) own[p] = squares;
    }
}

/* One block for each loss, and one for the energy. */
static __global__ void __launch_bounds__(THREADS)
    curve_sums_kernel(lh_curve_losses_args a, const float *parts, int64_t n)
{
    __shared__ double room[LH_WARP];
    int64_t p = blockIdx.x;
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += parts[i * (a.points + 1) + p];
    sum = lh_block_sum(sum, room);
    if (threadIdx.x == 0) *(p < a.points ? a.losses + p : a.energy) = (float)sum;
}

lh_status lh_cuda_curve_losses(lh_stream *stream, const lh_curve_losses_args *a)
{
    const int64_t tiles = (a->n + THREADS - 1) / THREADS, n = tiles * a->dim;
    const lh_shape cells = {dim3((unsigned)a->dim, (unsigned)tiles), THREADS, 0};
    const lh_shape sums = {dim3((unsigned)(a->points + 1)), THREADS, 0};
    float *parts = NULL;
    LH_TRY(lh_stream_scratch(stream, &parts, n * (a->points + 1) * (int64_t)sizeof *parts));
    LH_TRY(lh_launch(stream, "curve_losses", cells, curve_parts_kernel, *a, parts));
    LH_TRY(lh_launch(stream, "curve_losses", sums, curve_sums_kernel, *a, (const float *)parts, n));
    return LH_OK;
}

/* ---- errors without an entry ---- */

/* The term of a dominant weight. */
static __device__ float dominant_error(const lh_output_errors_args &a, int64_t i, int64_t s, float p)
{
    const float mass = a.rest[a.dim * a.n + i];
    float sum = 0.0f;
    for (int64_t x = 0; x < a.dim && mass > 0; x++) {
        float off = a.values[s * a.dim + x] - a.rest[x * a.n + i] / mass;
        sum = fmaf(off, off, sum);
    }
    return p * p * sum;
}

/* One thread for each slot. */
static __global__ void __launch_bounds__(THREADS) output_errors_kernel(lh_output_errors_args a)
{
    const int64_t s = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (s >= a.cols) return;
    const float squares = a.squares[s];
    float sum = 0.0f, dominant = 0.0f;
    for (int64_t i = 0; i < a.n; i++) {
        const float weight = a.weights[i * a.ld + s], share = quotient(1.0f, a.masses[i]), p = share * weight;
        if (weight > LH_DOMINANT) {
            dominant += dominant_error(a, i, s, p);
            continue;
        }
        const float rate = p / (1.0f - p),
                    off = fmaf(-2.0f * share, a.products[i * a.ld + s], squares) + a.energies[i] * share * share;
        sum = fmaf(rate * rate, fmaxf(0.0f, off), sum);
    }
    a.errors[s] += sum + dominant;
}

lh_status lh_cuda_output_errors(lh_stream *stream, const lh_output_errors_args *a)
{
    const lh_shape slots = {dim3((unsigned)((a->cols + THREADS - 1) / THREADS)), THREADS, 0};
    return lh_launch(stream, "output_errors", slots, output_errors_kernel, *a);
}
