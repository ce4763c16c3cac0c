/* One number after another: sums, soft caps, gates, conversions. */
#include "kernels/cuda/warp.cuh"

enum { THREADS = 256 };

static lh_shape each(int64_t n)
{
    return lh_shape{dim3(lh_blocks(n, THREADS)), THREADS, 0};
}

static __global__ void add_kernel(lh_add_args a)
{
    for (int64_t i = lh_grid_first(); i < a.tokens * a.dim; i += lh_grid_step()) {
        int64_t t = i / a.dim, c = i % a.dim;
        a.y[t * a.y_ld + c] += a.x[t * a.x_ld + c];
    }
}

lh_status lh_cuda_add(lh_stream *stream, const lh_add_args *a)
{
    return lh_launch(stream, "add", each(a->tokens * a->dim), add_kernel, *a);
}

static __global__ void softcap_kernel(lh_softcap_args a)
{
    for (int64_t i = lh_grid_first(); i < a.count; i += lh_grid_step()) a.x[i] = a.cap * tanhf(a.x[i] / a.cap);
}

lh_status lh_cuda_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    return lh_launch(stream, "softcap", each(a->count), softcap_kernel, *a);
}

static __global__ void sum_shards_kernel(lh_sum_shards_args a)
{
    for (int64_t i = lh_grid_first(); i < a.count; i += lh_grid_step()) {
        float sum = a.shards > 0 ? a.parts[i] : 0.0f;
        for (int64_t s = 1; s < a.shards; s++) sum += a.parts[s * a.count + i];
        a.y[i] = sum;
    }
}

lh_status lh_cuda_sum_shards(lh_stream *stream, const lh_sum_shards_args *a)
{
    return lh_launch(stream, "sum_shards", each(a->count), sum_shards_kernel, *a);
}

static __device__ float gate_of(float x, lh_gate kind)
{
    const float root_2_over_pi = 0.7978845608028654f, root_half = 0.7071067811865476f;
    if (kind == LH_GATE_SILU) return x / (1.0f + expf(-x));
    if (kind == LH_GATE_GELU) return 0.5f * x * (1.0f + erff(x * root_half));
    return 0.5f * x * (1.0f + tanhf(root_2_over_pi * (x + 0.044715f * x * x * x)));
}

template <typename Y>
static __global__ void gated_kernel(lh_gated_args a)
{
    for (int64_t i = lh_grid_first(); i < a.tokens * a.dim; i += lh_grid_step()) {
        int64_t t = i / a.dim, c = i % a.dim;
        float y = gate_of(a.gate[t * a.ld + c], a.gate_kind) * a.up[t * a.ld + c];
        lh_put((Y *)a.y + t * a.y_ld + c, y);
    }
}

lh_status lh_cuda_gated(lh_stream *stream, const lh_gated_args *a)
{
    auto *kernel = a->y_type == LH_F32 ? gated_kernel<float> : gated_kernel<__nv_bfloat16>;
    return lh_launch(stream, "gated", each(a->tokens * a->dim), kernel, *a);
}

template <typename Y, typename X>
static __global__ void convert_kernel(lh_convert_args a)
{
    for (int64_t i = lh_grid_first(); i < a.rows * a.cols; i += lh_grid_step()) {
        int64_t r = i / a.cols, c = i % a.cols;
        lh_put((Y *)a.dst + r * a.dst_ld + c, lh_number(((const X *)a.src)[r * a.src_ld + c]));
    }
}

lh_status lh_cuda_convert(lh_stream *stream, const lh_convert_args *a)
{
    typedef __nv_bfloat16 bf16;
    auto *kernel = a->dst_type == LH_F32
                       ? (a->src_type == LH_F32 ? convert_kernel<float, float> : convert_kernel<float, bf16>)
                       : (a->src_type == LH_F32 ? convert_kernel<bf16, float> : convert_kernel<bf16, bf16>);
    return lh_launch(stream, "convert", each(a->rows * a->cols), kernel, *a);
}
