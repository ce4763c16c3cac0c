/* Rows of activations: embedding, norms, rotation; conversions, gates, sums, soft caps; random weights. */
#define LH_IN_DOUBLE
#include <string.h>

#include "base/rng.h"
#include "kernels/elementwise.h"
#include "kernels/packed.h"
#include "kernels/ref/ref.h"

static double table_value(const lh_matrix *table, int64_t row, int64_t i, int64_t dim)
{
    if (!table->format->is_plain) return lh_packed_value(table, row, table->first + i);
    return ref_load(table->data, table->format->plain, row * dim + i);
}

lh_status lh_ref_embed(lh_stream *stream, const lh_embed_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        int64_t row = a->ids[t] - a->first;
        for (int64_t i = 0; i < a->dim; i++) {
            double x = row >= 0 && row < a->rows ? table_value(&a->table, row, i, a->dim) : 0.0;
            a->y[t * a->dim + i] = (float)(a->scale * x);
        }
    }
    return LH_OK;
}

static double sum_squares(const float *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

/* x of head h of row t, after the addend. */
static const float *summed_head(const lh_rmsnorm_args *a, int64_t t, int64_t h)
{
    const int64_t at = t * a->x_ld + h * a->dim;
    for (int64_t i = 0; a->addend && i < a->dim; i++)
        a->sum[at + i] = a->x[at + i] + (float)ref_load(a->addend, a->addend_type, at + i);
    return (a->addend ? a->sum : a->x) + at;
}

static double mean_square(const lh_rmsnorm_args *a, int64_t t, const float *x)
{
    float sum = 0.0f;
    if (!a->squares) return sum_squares(x, a->dim) / (double)a->dim;
    for (int64_t j = 0; j < a->parts; j++) sum += a->squares[t * a->squares_ld + j];
    return (double)sum / (double)(a->parts * a->dim);
}

lh_status lh_ref_rmsnorm(lh_stream *stream, const lh_rmsnorm_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t h = 0; h < a->heads; h++) {
            const float *x = summed_head(a, t, h), *w = a->w + h * a->w_ld;
            double root = sqrt(mean_square(a, t, x) + a->eps);
            for (int64_t i = 0; i < a->dim; i++) {
                const int64_t at = t * a->y_ld + h * a->dim + i;
                double old = a->adds ? ref_load(a->y, a->y_type, at) : 0.0;
                ref_store(a->y, a->y_type, at, old + x[i] / root * ((double)a->offset + w[i]));
            }
        }
    }
    return LH_OK;
}

lh_status lh_ref_squares(lh_stream *stream, const lh_squares_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++)
        for (int64_t h = 0; h < a->heads; h++)
            a->y[t * a->y_ld + h] = (float)sum_squares(a->x + t * a->x_ld + h * a->dim, a->dim);
    return LH_OK;
}

lh_status lh_ref_rope(lh_stream *stream, const lh_rope_args *a)
{
    (void)stream;
    int64_t half = a->rotary / 2;
    for (int64_t t = 0; t < a->tokens; t++) {
        const double scale = a->scale * lh_query_factor(&a->scaling, a->positions[t]);
        for (int64_t h = 0; h < a->heads; h++) {
            float *x = a->x + t * a->ld + h * a->dim;
            for (int64_t i = 0; i < half; i++) {
                float angle = (float)a->positions[t] * a->inv_freq[i];
                double c = cos(angle) * scale, s = sin(angle) * scale;
                double low = x[i], high = x[i + half];
                x[i] = (float)(low * c - high * s);
                x[i + half] = (float)(high * c + low * s);
            }
        }
    }
    return LH_OK;
}

/* ---- numbers of rows ---- */
lh_status lh_ref_convert(lh_stream *stream, const lh_convert_args *a)
{
    const lh_ref_rows src = {(void *)(uintptr_t)a->src, (float *)(uintptr_t)a->src_scale, a->src_type, a->are_keys,
                             a->src_ld};
    const lh_ref_rows dst = {a->dst, a->dst_scale, a->dst_type, a->are_keys, a->dst_ld};
    float *row = NULL;
    LH_TRY(lh_stream_scratch(stream, &row, a->cols * (int64_t)sizeof *row));
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i++) row[i] = (float)ref_row_load(&src, r, i);
        if (src.type == LH_Q8 && src.are_keys) lh_q8_hadamard_inverse(row, a->cols);
        ref_row_store(&dst, r, row, a->cols);
    }
    return LH_OK;
}

lh_status lh_ref_gated(lh_stream *stream, const lh_gated_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++) {
            const double gate = ref_load(a->gate, a->x_type, t * a->ld + i),
                         up = ref_load(a->up, a->x_type, t * a->ld + i);
            ref_store(a->y, a->y_type, t * a->y_ld + i, lh_gate_of(gate, a->gate_kind) * up);
        }
    }
    return LH_OK;
}

lh_status lh_ref_softcap(lh_stream *stream, const lh_softcap_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) a->x[i] = lh_softcapped(a->x[i], a->cap);
    return LH_OK;
}

lh_status lh_ref_add(lh_stream *stream, const lh_add_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++) a->y[t * a->y_ld + i] += (float)ref_load(a->x, a->x_type, t * a->x_ld + i);
    }
    return LH_OK;
}

lh_status lh_ref_check_finite(lh_stream *stream, const lh_check_finite_args *a)
{
    int wrong = 0;
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) wrong |= !isfinite(a->x[i]);
    if (wrong) *a->wrong = 1;
    return LH_OK;
}

/* ---- weights of random models ---- */
lh_status lh_ref_random_weights(lh_stream *stream, const lh_random_weights_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i++) {
            float z, x;
            lh_normals(&z, a->seed, a->stream, a->first + r * a->step + i, 1);
            x = a->mean + a->scale * z;
            if (a->stored == LH_BF16) x = lh_bf16_to_f32(lh_f32_to_bf16(x));
            ref_store(a->y, a->y_type, r * a->cols + i, x);
        }
    }
    return LH_OK;
}
