/* expert_products.h - the product of one expert as one of gemm, for backends whose device memory is the host's. */
#ifndef LH_KERNELS_EXPERT_PRODUCTS_H
#define LH_KERNELS_EXPERT_PRODUCTS_H

#include "kernels/ops_experts.h"

static inline lh_gemm_args lh_product_of_expert(const lh_expert_gemm_args *a, int64_t e)
{
    const int64_t first = a->routes.first[e], bytes = lh_dtype_bytes(a->type);
    return (lh_gemm_args){.y = a->y + first * a->y_ld,
                          .x = (const char *)a->x + first * a->x_ld * bytes,
                          .w = (const char *)a->w + e * a->expert_stride * bytes,
                          .type = a->type,
                          .tokens = a->routes.first[e + 1] - first,
                          .out = a->out,
                          .in = a->in,
                          .y_ld = a->y_ld,
                          .x_ld = a->x_ld,
                          .w_ld = a->w_ld,
                          .order = a->order};
}

#endif
