/* ref.h - the functions of the `ref` backend, and their helpers. Plain loops and double sums: the definition of every
 * operation, so nothing here is ever optimised. */
#ifndef LH_KERNELS_REF_REF_H
#define LH_KERNELS_REF_REF_H

#include <assert.h>

#include "kernels/ops.h"
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

#endif
