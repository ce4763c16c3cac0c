/* Rows of activations: embedding, norms, rotation; conversions, gates, sums, soft caps; random weights. */
#include "base/rng.h"
#include "kernels/cpu/common.h"
#include "kernels/elementwise.h"
#include "kernels/packed.h"

/* Columns [i, min(i + VL, dim)) of a row of the table. */
VEC_FN vf table_values(const lh_matrix *table, int64_t row, int64_t i, int64_t dim)
{
    float x[VL] = {0};
    if (table->format->is_plain) return vf_load_any_first(table->data, table->format->plain, row * dim + i, dim - i);
    for (int64_t c = 0; c < lh_min_i64(VL, dim - i); c++) x[c] = lh_packed_value(table, row, table->first + i + c);
    return vf_load(x);
}

static lh_status op_embed(lh_stream *stream, const lh_embed_args *a)
{
    vf scale = vf_set1(a->scale);
    (void)stream;
#pragma omp parallel for if (a->tokens * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->tokens; t++) {
        int64_t row = a->ids[t] - a->first;
        int here = row >= 0 && row < a->rows;
        for (int64_t i = 0; i < a->dim; i += VL) {
            vf x = here ? table_values(&a->table, row, i, a->dim) : vf_zero();
            vf_store_first(a->y + t * a->dim + i, scale * x, a->dim - i);
        }
    }
    return LH_OK;
}

static float sum_squares(const float *x, int64_t n)
{
    vf s0 = vf_zero(), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        vf x0 = vf_load(x + i), x1 = vf_load(x + i + VL), x2 = vf_load(x + i + 2 * VL), x3 = vf_load(x + i + 3 * VL);
        s0 = vf_fma(x0, x0, s0), s1 = vf_fma(x1, x1, s1), s2 = vf_fma(x2, x2, s2), s3 = vf_fma(x3, x3, s3);
    }
    for (; i < n; i += VL) {
        vf x0 = vf_load_first(x + i, n - i);
        s0 = vf_fma(x0, x0, s0);
    }
    return vf_sum((s0 + s1) + (s2 + s3));
}

/* x of head h of row t, after the addend. */
static const float *summed_head(const lh_rmsnorm_args *a, int64_t t, int64_t h)
{
    const int64_t at = t * a->x_ld + h * a->dim;
    if (!a->addend) return a->x + at;
    for (int64_t i = 0; i < a->dim; i += VL) {
        vf by = vf_load_any_first(a->addend, a->addend_type, at + i, a->dim - i);
        vf_store_first(a->sum + at + i, vf_load_first(a->x + at + i, a->dim - i) + by, a->dim - i);
    }
    return a->sum + at;
}

static float mean_square(const lh_rmsnorm_args *a, int64_t t, const float *x)
{
    float sum = 0;
    if (!a->squares) return sum_squares(x, a->dim) / (float)a->dim;
    for (int64_t j = 0; j < a->parts; j++) sum += a->squares[t * a->squares_ld + j];
    return sum / (float)(a->parts * a->dim);
}

static lh_status op_squares(lh_stream *stream, const lh_squares_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->tokens * a->heads * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->tokens; t++)
        for (int64_t h = 0; h < a->heads; h++)
            a->y[t * a->y_ld + h] = sum_squares(a->x + t * a->x_ld + h * a->dim, a->dim);
    return LH_OK;
}

static lh_status op_rmsnorm(lh_stream *stream, const lh_rmsnorm_args *a)
{
    vf offset = vf_set1(a->offset);
    (void)stream;
#pragma omp parallel for if (a->tokens * a->heads * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t h = 0; h < a->heads; h++) {
            const float *x = summed_head(a, t, h);
            vf factor = vf_set1(1.0f / sqrtf(mean_square(a, t, x) + a->eps));
            for (int64_t i = 0; i < a->dim; i += VL) {
                const int64_t at = t * a->y_ld + h * a->dim + i;
                vf w = offset + vf_load_first(a->w + h * a->w_ld + i, a->dim - i);
                vf y = (vf_load_first(x + i, a->dim - i) * factor) * w;
                if (a->adds) y = vf_load_any_first(a->y, a->y_type, at, a->dim - i) + y;
                vf_store_any_first(a->y, a->y_type, at, y, a->dim - i);
            }
        }
    }
    return LH_OK;
}

/* One row, dimensions [i, i + n) of the first half and their partners. */
enum { ROPE_BLOCK = 64 };

static void rope_block(const lh_rope_args *a, int64_t t, int64_t i, int64_t n)
{
    const float scale = a->scale * lh_query_factor(&a->scaling, a->positions[t]);
    float c[ROPE_BLOCK], s[ROPE_BLOCK];
    rotation_of(a->positions[t], a->inv_freq + i, scale, n, s, c);
    for (int64_t h = 0; h < a->heads; h++) {
        float *low = a->x + t * a->ld + h * a->dim + i, *high = low + a->rotary / 2;
        for (int64_t j = 0; j < n; j += VL) {
            vf x = vf_load_first(low + j, n - j), y = vf_load_first(high + j, n - j);
            vf cosine = vf_load_first(c + j, n - j), sine = vf_load_first(s + j, n - j);
            vf_store_first(low + j, x * cosine - y * sine, n - j);
            vf_store_first(high + j, y * cosine + x * sine, n - j);
        }
    }
}

static lh_status op_rope(lh_stream *stream, const lh_rope_args *a)
{
    int64_t half = a->rotary / 2;
    (void)stream;
#pragma omp parallel for if (a->tokens * a->heads * a->rotary >= PARALLEL_FROM / 4)
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < half; i += ROPE_BLOCK)
            rope_block(a, t, i, half - i < ROPE_BLOCK ? half - i : ROPE_BLOCK);
    }
    return LH_OK;
}

/* ---- numbers of rows ---- */
/* row: workspace of a thread, [cols]. */
static void convert_row(const lh_convert_args *a, int64_t r, float *row)
{
    const int64_t bytes = lh_dtype_bytes(a->src_type), from = r * a->src_ld, to = r * a->dst_ld;
    const int is_wide = a->src_type == LH_Q8;
    if (a->src_type == a->dst_type) {
        memcpy((char *)a->dst + to * bytes, (const char *)a->src + from * bytes, (size_t)(a->cols * bytes));
        if (is_wide) a->dst_scale[r] = a->src_scale[r];
        return;
    }
    if (is_wide) widen_row(row, (const int8_t *)a->src + from, a->src_scale[r], a->cols);
    if (is_wide && a->are_keys) lh_q8_hadamard_inverse(row, a->cols);
    const void *src = is_wide ? row : a->src;
    const lh_dtype src_type = is_wide ? LH_F32 : a->src_type;
    const lh_dtype dst_type = a->dst_type == LH_Q8 ? LH_F32 : a->dst_type;
    void *dst = a->dst_type == LH_Q8 ? row : a->dst;
    for (int64_t i = 0; i < a->cols; i += VL) {
        vf x = vf_load_any_first(src, src_type, (is_wide ? 0 : from) + i, a->cols - i);
        vf_store_any_first(dst, dst_type, (a->dst_type == LH_Q8 ? 0 : to) + i, x, a->cols - i);
    }
    if (a->dst_type != LH_Q8) return;
    if (a->are_keys) lh_q8_hadamard(row, a->cols);
    a->dst_scale[r] = lh_q8_row((int8_t *)a->dst + to, row, a->cols);
}

static lh_status op_convert(lh_stream *stream, const lh_convert_args *a)
{
    const int64_t ld = round_up(a->cols, 16);
    float *rows = NULL;
    if (a->src_type == LH_Q8 || a->dst_type == LH_Q8)
        LH_TRY(lh_stream_scratch(stream, &rows, omp_get_max_threads() * ld * (int64_t)sizeof *rows));
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM)
    for (int64_t r = 0; r < a->rows; r++) convert_row(a, r, rows ? rows + omp_get_thread_num() * ld : NULL);
    return LH_OK;
}

VEC_FN vf silu(vf x)
{
    return x / (vf_set1(1.0f) + vf_exp(vf_zero() - x));
}

VEC_FN vf gelu_tanh(vf x)
{
    vf inner = vf_set1(0.797884561f) * vf_fma(vf_set1(0.044715f) * x, x * x, x);
    /* (1 + tanh(u)) / 2 = 1 / (1 + e^-2u), which does not cancel for tanh near -1. */
    return x / (vf_set1(1.0f) + vf_exp(vf_set1(-2.0f) * inner));
}

VEC_FN vf gelu(vf x)
{
    return vf_set1(0.5f) * x * vf_one_plus_erf(x * vf_set1(0.707106781f));
}

VEC_FN void gated_row(const lh_gated_args *a, int64_t t, vf (*gate)(vf))
{
    for (int64_t i = 0; i < a->dim; i += VL) {
        vf x = gate(vf_load_any_first(a->gate, a->x_type, t * a->ld + i, a->dim - i));
        vf up = vf_load_any_first(a->up, a->x_type, t * a->ld + i, a->dim - i);
        vf_store_any_first(a->y, a->y_type, t * a->y_ld + i, x * up, a->dim - i);
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

/* ---- weights of random models ---- */
static lh_status op_random_weights(lh_stream *stream, const lh_random_weights_args *a)
{
    enum { AT_ONCE = 256 };
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM / 4)
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i += AT_ONCE) {
            const int64_t n = a->cols - i < AT_ONCE ? a->cols - i : AT_ONCE;
            float x[AT_ONCE];
            lh_normals(x, a->seed, a->stream, a->first + r * a->step + i, n);
            for (int64_t j = 0; j < n; j++) x[j] = a->mean + a->scale * x[j];
            for (int64_t j = 0; j < n && a->stored == LH_BF16; j++) x[j] = lh_bf16_to_f32(lh_f32_to_bf16(x[j]));
            for (int64_t j = 0; j < n; j += VL)
                vf_store_any_first(a->y, a->y_type, r * a->cols + i + j, vf_load_first(x + j, n - j), n - j);
        }
    }
    return LH_OK;
}
