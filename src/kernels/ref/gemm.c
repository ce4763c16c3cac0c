/* Matrix products, with sums in double or in the fixed order. */
#include <math.h>

#include "kernels/packed.h"
#include "kernels/ref/ref.h"

/* Each function: the product of row t of x and a row of w, which is row o of the product. */
static float dot_any(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t t, int64_t o)
{
    double sum = (a->bias ? a->bias[o] : 0.0) + (a->adds ? a->y[t * a->y_ld + o] : 0.0f);
    for (int64_t i = 0; i < a->in; i++)
        sum += ref_load(a->x, a->type, t * a->x_ld + i) * ref_load(w->data, a->type, row * w->ld + i);
    return (float)sum;
}

static float dot_fixed(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t t, int64_t o)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < a->in; i++) {
        float x = (float)ref_load(a->x, a->type, t * a->x_ld + i);
        sum = fmaf(x, (float)ref_load(w->data, a->type, row * w->ld + i), sum);
    }
    return a->bias ? sum + a->bias[o] : sum;
}

/* Weights by rows, as numbers of the type of x. */
static float weight_of(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t i)
{
    const float value = lh_packed_value(w, row, w->first + i);
    return a->type == LH_F32 ? value : lh_bf16_to_f32(lh_f32_to_bf16(value));
}

static float dot_rows(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t t, int64_t o)
{
    double sum = (a->bias ? a->bias[o] : 0.0) + (a->adds ? a->y[t * a->y_ld + o] : 0.0f);
    float chain = 0.0f;
    for (int64_t i = 0; i < a->in; i++) {
        const float x = (float)ref_load(a->x, a->type, t * a->x_ld + i), value = weight_of(a, w, row, i);
        sum += (double)x * value;
        chain = fmaf(x, value, chain);
    }
    return a->order == LH_ORDER_ANY ? (float)sum : a->bias ? chain + a->bias[o] : chain;
}

static float dot_packed(const lh_gemm_args *a, const lh_matrix *w, int64_t row, int64_t t, int64_t o)
{
    float sum = ref_packed_dot(a, w, row, t);
    if (a->bias) sum += a->bias[o];
    return a->adds ? a->y[t * a->y_ld + o] + sum : sum;
}

lh_status lh_ref_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    int64_t first = 0;
    (void)stream;
    for (const lh_matrix *w = &a->w; first < a->out; w = w->next) {
        const int64_t rows = lh_matrix_rows(w, a->out - first);
        float (*dot)(const lh_gemm_args *, const lh_matrix *, int64_t, int64_t, int64_t) =
            w->format->by_rows           ? dot_rows
            : !w->format->is_plain       ? dot_packed
            : a->order == LH_ORDER_FIXED ? dot_fixed
                                         : dot_any;
        for (int64_t t = 0; t < a->tokens; t++)
            for (int64_t r = 0; r < rows; r++) a->y[t * a->y_ld + first + r] = dot(a, w, r, t, first + r);
        first += rows;
    }
    return LH_OK;
}
