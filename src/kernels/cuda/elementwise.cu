/* One number after another: sums, soft caps, gates, conversions. Each input is read once and each output written once,
 * four numbers a thread, neighbours by neighbours; enough threads are there to keep the memory busy. */
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/elementwise.h"
}

static int width_of(int one, int other)
{
    return one == 4 && other == 4 ? 4 : 1;
}

/* y and x read, y written: 10 or 12 bytes a number. */
template <typename X>
static __global__ void add_kernel(lh_add_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four y = lh_get4(a.y + t * a.y_ld + i, a.dim - i, width);
            lh_four x = lh_get4((const X *)a.x + t * a.x_ld + i, a.dim - i, width);
            for (int j = 0; j < 4; j++) y.at[j] += x.at[j];
            lh_put4(a.y + t * a.y_ld + i, y, a.dim - i, width);
        }
    }
}

lh_status lh_cuda_add(lh_stream *stream, const lh_add_args *a)
{
    auto *kernel = a->x_type == LH_F32 ? add_kernel<float> : add_kernel<__nv_bfloat16>;
    int width = width_of(lh_width(a->y, a->y_ld, LH_F32), lh_width(a->x, a->x_ld, a->x_type));
    return lh_launch(stream, "add", lh_fours_shape(a->tokens, a->dim), kernel, *a, width);
}

static __global__ void softcap_kernel(lh_softcap_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        for (int j = 0; j < 4; j++) x.at[j] = lh_softcapped(x.at[j], a.cap);
        lh_put4(a.x + i, x, a.count - i, width);
    }
}

lh_status lh_cuda_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    return lh_launch(stream, "softcap", lh_fours_shape(1, a->count), softcap_kernel, *a, lh_width(a->x, 0, LH_F32));
}

static __global__ void sum_shards_kernel(lh_sum_shards_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four sum = {{0, 0, 0, 0}};
        if (a.shards > 0) sum = lh_get4(a.parts + i, a.count - i, width);
        for (int64_t s = 1; s < a.shards; s++) {
            lh_four part = lh_get4(a.parts + s * a.count + i, a.count - i, width);
            for (int j = 0; j < 4; j++) sum.at[j] += part.at[j];
        }
        lh_put4(a.y + i, sum, a.count - i, width);
    }
}

lh_status lh_cuda_sum_shards(lh_stream *stream, const lh_sum_shards_args *a)
{
    int width = width_of(lh_width(a->y, 0, LH_F32), lh_width(a->parts, a->shards > 1 ? a->count : 0, LH_F32));
    return lh_launch(stream, "sum_shards", lh_fours_shape(1, a->count), sum_shards_kernel, *a, width);
}

/* Threads that find one all write the same. */
static __global__ void check_finite_kernel(lh_check_finite_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width); /* 0 after the last */
        int finite = 1;
        for (int j = 0; j < 4; j++) finite &= isfinite(x.at[j]) != 0;
        if (!finite) *a.wrong = 1;
    }
}

lh_status lh_cuda_check_finite(lh_stream *stream, const lh_check_finite_args *a)
{
    return lh_launch(stream, "check_finite", lh_fours_shape(1, a->count), check_finite_kernel, *a,
                     lh_width(a->x, 0, LH_F32));
}

/* gate and up read, y written: 6 to 12 bytes a number. */
template <typename Y, typename X>
static __global__ void gated_kernel(lh_gated_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four gate = lh_get4((const X *)a.gate + t * a.ld + i, a.dim - i, width);
            lh_four y = lh_get4((const X *)a.up + t * a.ld + i, a.dim - i, width);
            for (int j = 0; j < 4; j++) y.at[j] *= lh_gate_of(gate.at[j], a.gate_kind);
            lh_put4((Y *)a.y + t * a.y_ld + i, y, a.dim - i, width);
        }
    }
}

template <typename X>
static lh_status launch_gated(lh_stream *stream, const lh_gated_args *a, lh_dtype x_type)
{
    auto *kernel = a->y_type == LH_F32 ? gated_kernel<float, X> : gated_kernel<__nv_bfloat16, X>;
    int width = width_of(lh_width(a->gate, a->ld, x_type), lh_width(a->up, a->ld, x_type));
    width = width_of(width, lh_width(a->y, a->y_ld, a->y_type));
    return lh_launch(stream, "gated", lh_fours_shape(a->tokens, a->dim), kernel, *a, width);
}

lh_status lh_cuda_gated(lh_stream *stream, const lh_gated_args *a)
{
    return launch_gated<float>(stream, a, LH_F32);
}

lh_status lh_cuda_gated_bf16(lh_stream *stream, const lh_gated_args *a)
{
    return launch_gated<__nv_bfloat16>(stream, a, LH_BF16);
}

template <typename Y, typename X>
static __global__ void convert_kernel(lh_convert_args a, int width)
{
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        for (int64_t i = 4 * lh_grid_first(); i < a.cols; i += 4 * lh_grid_step()) {
            lh_four x = lh_get4((const X *)a.src + r * a.src_ld + i, a.cols - i, width);
            lh_put4((Y *)a.dst + r * a.dst_ld + i, x, a.cols - i, width);
        }
    }
}

lh_status lh_cuda_convert(lh_stream *stream, const lh_convert_args *a)
{
    typedef __nv_bfloat16 bf16;
    auto *kernel = a->dst_type == LH_F32
                       ? (a->src_type == LH_F32 ? convert_kernel<float, float> : convert_kernel<float, bf16>)
                       : (a->src_type == LH_F32 ? convert_kernel<bf16, float> : convert_kernel<bf16, bf16>);
    int width = width_of(lh_width(a->dst, a->dst_ld, a->dst_type), lh_width(a->src, a->src_ld, a->src_type));
    return lh_launch(stream, "convert", lh_fours_shape(a->rows, a->cols), kernel, *a, width);
}
