/* ref.h - the functions of the `ref` backend, and their helpers. Plain loops and double sums: the definition of every
 * operation, so nothing here is ever optimised. */
#ifndef LH_KERNELS_REF_REF_H
#define LH_KERNELS_REF_REF_H

#include <assert.h>

#include "kernels/ops.h"
#include "kernels/q8.h"
#include "kernels/ragged.h"

/* lh_ref_embed, lh_ref_rmsnorm, … */
#define LH_OP(op, summary) lh_status lh_ref_##op(lh_stream *stream, const lh_##op##_args *args);
LH_OPS(LH_OP)
#undef LH_OP

/* Element i of x, and y[i] = value rounded to the type of y. f32 or bf16. */
static inline double ref_load(const void *x, lh_dtype type, int64_t i)
{
    assert(type == LH_F32 || type == LH_BF16);
    return type == LH_F32 ? ((const float *)x)[i] : lh_bf16_to_f32(((const uint16_t *)x)[i]);
}

static inline void ref_store(void *y, lh_dtype type, int64_t i, double value)
{
    assert(type == LH_F32 || type == LH_BF16);
    if (type == LH_F32)
        ((float *)y)[i] = (float)value;
    else
        ((uint16_t *)y)[i] = lh_f32_to_bf16((float)value);
}

/* The product of row t of x and a row of packed weights, before the bias (ref/packed.c). */
float ref_packed_dot(const lh_gemm_args *args, const lh_matrix *w, int64_t row, int64_t t);

/* Rows of f32, bf16 or q8 with a distance of ld. scale: of the rows of q8. */
typedef struct lh_ref_rows {
    void *at;
    float *scale;
    lh_dtype type;
    int are_keys; /* q8: true if the codes are those of keys */
    int64_t ld;
} lh_ref_rows;

/* Number i of row r; of a key of q8 number i of H k (q8.h). */
static inline double ref_row_load(const lh_ref_rows *x, int64_t r, int64_t i)
{
    if (x->type != LH_Q8) return ref_load(x->at, x->type, r * x->ld + i);
    return (double)((const int8_t *)x->at)[r * x->ld + i] * (double)x->scale[r];
}

/* Row r = the n numbers of `row`, which is overwritten. */
static inline void ref_row_store(const lh_ref_rows *y, int64_t r, float *row, int64_t n)
{
    if (y->type == LH_Q8 && y->are_keys) lh_q8_hadamard(row, n);
    for (int64_t i = 0; i < n && y->type != LH_Q8; i++) ref_store(y->at, y->type, r * y->ld + i, row[i]);
    if (y->type == LH_Q8) y->scale[r] = lh_q8_row((int8_t *)y->at + r * y->ld, row, n);
}

/* The keys and the values of a cache, by slots. */
static inline lh_ref_rows ref_keys(const lh_ragged *kv)
{
    return (lh_ref_rows){kv->k, kv->k_scale, kv->type, 1, kv->head_dim};
}

static inline lh_ref_rows ref_values(const lh_ragged *kv)
{
    return (lh_ref_rows){kv->v, kv->v_scale, kv->type, 0, kv->head_dim};
}

#endif
