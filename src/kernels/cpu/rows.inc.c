/* Rows of a block of tokens: embedding, norms, rotation. */
#include "kernels/cpu/common.h"
#include "kernels/elementwise.h"

static lh_status op_embed(lh_stream *stream, const lh_embed_args *a)
{
    vf scale = vf_set1(a->scale);
    (void)stream;
#pragma omp parallel for if (a->tokens * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->tokens; t++) {
        int64_t row = a->ids[t] - a->first;
        int here = row >= 0 && row < a->rows;
        for (int64_t i = 0; i < a->dim; i += VL) {
            vf x = here ? vf_load_any_first(a->table, a->type, row * a->dim + i, a->dim - i) : vf_zero();
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
            const float *x = a->x + t * a->x_ld + h * a->dim;
            vf factor = vf_set1(1.0f / sqrtf(mean_square(a, t, x) + a->eps));
            for (int64_t i = 0; i < a->dim; i += VL) {
                vf w = offset + vf_load_first(a->w + h * a->w_ld + i, a->dim - i);
                vf y = (vf_load_first(x + i, a->dim - i) * factor) * w;
                vf_store_any_first(a->y, a->y_type, t * a->y_ld + h * a->dim + i, y, a->dim - i);
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
    float c[ROPE_BLOCK], s[ROPE_BLOCK], position = (float)a->positions[t];
    for (int64_t j = 0; j < n; j++) {
        sin_cos(position * a->inv_freq[i + j], &s[j], &c[j]);
        c[j] *= scale;
        s[j] *= scale;
    }
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
