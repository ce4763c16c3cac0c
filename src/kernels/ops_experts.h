/* ops_experts.h - mixtures of experts: the experts of each token are chosen, its row goes to each of them, and what
 * they answer is added. A slot is a token at one of its experts; slots lie in the order of experts, and those of an
 * expert in the order of tokens. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_EXPERTS_H
#define LH_KERNELS_OPS_EXPERTS_H

#include <stdint.h>

#include "base/dtype.h"
#include "kernels/ops_model.h"

/* Where the tokens went. */
typedef struct lh_routes {
    int64_t tokens, chosen, experts; /* each token goes to `chosen` experts */
    float *share;                    /* [tokens, chosen] factor of what the expert answers; the largest logit first */
    int32_t *slot;                   /* [tokens, chosen] */
    int32_t *token;                  /* [tokens * chosen] of each slot */
    int32_t *first;                  /* [experts + 1] first slot of each expert; the last is tokens * chosen */
} lh_routes;

/* The `chosen` experts of each token with the largest logits, equal ones by their index (in the order of lh_score_key).
 * share = exp(logit - top) / sum of exp(. - top) over all experts, or over the chosen ones where it is normalised; top:
 * the token's largest logit. 1 <= chosen <= experts, tokens * chosen < 2^31. */
typedef struct lh_route_args {
    lh_routes routes;
    const float *logits; /* [tokens, experts] */
    int normalised;
} lh_route_args;

/* y[r,:] = x[rows[r],:]. y may be bf16. */
typedef struct lh_gather_rows_args {
    void *y;
    lh_dtype y_type;
    const float *x;
    const int32_t *rows; /* [count] */
    int64_t count, dim, y_ld, x_ld;
} lh_gather_rows_args;

/* y[s,:] = x[s,:] * w(e)^T for every slot s of expert e, as gemm has it: w(e), [out, in], begins at w + e * w_next
 * numbers. x: [slots, in], y: [slots, out]. With LH_ORDER_FIXED the bits are those of gemm. */
typedef struct lh_expert_gemm_args {
    float *y;
    const void *x, *w;
    lh_dtype type; /* of x and w */
    lh_routes routes;
    int64_t out, in, y_ld, x_ld, w_ld, w_next;
    lh_order order;
} lh_expert_gemm_args;

/* y[t,i] = one chain of fused multiply-adds in f32 from 0 over c = 0, 1, … of share[t,c] * x[slot[t,c],i]. */
typedef struct lh_combine_args {
    float *y;       /* [tokens, dim] */
    const float *x; /* [slots, dim] */
    lh_routes routes;
    int64_t dim;
} lh_combine_args;

#endif
