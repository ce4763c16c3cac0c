/* Numbers of rows one by one: conversions, gates, sums, soft caps. */
#include "kernels/cpu/common.h"

static lh_status op_convert(lh_stream *stream, const lh_convert_args *a)
{
    int64_t bytes = lh_dtype_bytes(a->src_type);
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM)
    for (int64_t r = 0; r < a->rows; r++) {
        if (a->src_type == a->dst_type) {
            memcpy((char *)a->dst + r * a->dst_ld * bytes, (const char *)a->src + r * a->src_ld * bytes,
                   (size_t)(a->cols * bytes));
            continue;
        }
        for (int64_t i = 0; i < a->cols; i += VL) {
            vf x = vf_load_any_first(a->src, a->src_type, r * a->src_ld + i, a->cols - i);
            vf_store_any_first(a->dst, a->dst_type, r * a->dst_ld + i, x, a->cols - i);
        }
    }
    return LH_OK;
}

VEC_FN vf silu(vf x)
{
    return x / (vf_set1(1.0f) + vf_exp(vf_zero() - x));
}

VEC_FN vf gelu_tanh(vf x)
{
    vf inner = vf_set1(0.797884561f) * vf_fma(vf_set1(0.044715f) * x, x * x, x);
    /* (1 + tanh(u)) / 2 = 1 / (1 + e^-2u), which does not cancel where tanh comes
     * near -1. */
    return x / (vf_set1(1.0f) + vf_exp(vf_set1(-2.0f) * inner));
}

VEC_FN vf gelu(vf x)
{
    return vf_set1(0.5f) * x * vf_one_plus_erf(x * vf_set1(0.707106781f));
}

VEC_FN void gated_row(const lh_gated_args *a, int64_t t, vf (*gate)(vf))
{
    const float *g = a->gate + t * a->ld, *u = a->up + t * a->ld;
    for (int64_t i = 0; i < a->dim; i += VL) {
        vf y = gate(vf_load_first(g + i, a->dim - i)) * vf_load_first(u + i, a->dim - i);
        vf_store_any_first(a->y, a->y_type, t * a->y_ld + i, y, a->dim - i);
    }
}

static void silu_row(const lh_gated_args *a, int64_t t)
{
    gated_row(a, t, silu);
}

static void gelu_tanh_row(const lh_gated_args *a, int64_t t)
{
    gated_row(a, t, gelu_tanh);
}

static void gelu_row(const lh_gated_args *a, int64_t t)
{
    gated_row(a, t, gelu);
}

static lh_status op_gated(lh_stream *stream, const lh_gated_args *a)
{
    static void (*const rows[])(const lh_gated_args *, int64_t) = {
        [LH_GATE_SILU] = silu_row, [LH_GATE_GELU_TANH] = gelu_tanh_row, [LH_GATE_GELU] = gelu_row};
    (void)stream;
#pragma omp parallel for if (a->tokens * a->dim >= PARALLEL_FROM / 4)
    for (int64_t t = 0; t < a->tokens; t++) rows[a->gate_kind](a, t);
    return LH_OK;
}

static lh_status op_add(lh_stream *stream, const lh_add_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->tokens * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i += VL) {
            float *y = a->y + t * a->y_ld + i;
            vf x = vf_load_any_first(a->x, a->x_type, t * a->x_ld + i, a->dim - i);
            vf_store_first(y, vf_load_first(y, a->dim - i) + x, a->dim - i);
        }
    }
    return LH_OK;
}

static lh_status op_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    vf cap = vf_set1(a->cap), inverse = vf_set1(1.0f / a->cap);
    (void)stream;
#pragma omp parallel for if (a->count >= PARALLEL_FROM / 4)
    for (int64_t i = 0; i < a->count; i += VL)
        vf_store_first(a->x + i, cap * vf_tanh(inverse * vf_load_first(a->x + i, a->count - i)), a->count - i);
    return LH_OK;
}

static lh_status op_check_finite(lh_stream *stream, const lh_check_finite_args *a)
{
    return lh_ref_check_finite(stream, a);
}
