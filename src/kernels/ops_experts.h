/* ops_experts.h - mixtures of experts: the router's choice of experts for each token, a row per assignment, the
 * products of the experts, and the weighted sum of their outputs. An assignment is a token at one of its experts;
 * assignments are in the order of experts, and within an expert in the order of tokens. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_EXPERTS_H
#define LH_KERNELS_OPS_EXPERTS_H

#include <stdint.h>

#include "base/dtype.h"
#include "kernels/ops_model.h"

/* X(operation, summary) of this family. */
#define LH_OPS_EXPERTS(X)                                                    \
    X(route, "choose the experts of tokens and order tokens by expert")      \
    X(gather_rows, "rows in the order of an index")                          \
    X(expert_gemm, "matrix products of each expert's rows with its weights") \
    X(combine, "add the outputs of a token's experts by their routing weights")

/* The router's choice. */
typedef struct lh_routes {
    int64_t tokens, top_k, experts; /* each token goes to top_k experts */
    float *weight;                  /* [tokens, top_k] routing weights; the largest logit first */
    int32_t *assignment;            /* [tokens, top_k] */
    int32_t *token;                 /* [tokens * top_k] token of each assignment */
    int32_t *first;                 /* [experts + 1] first assignment of each expert; the last is tokens * top_k */
} lh_routes;

/* The top_k experts of each token with the largest logits, ties by index (in the order of lh_score_key). weight =
 * exp(logit - top) / sum of exp(. - top) over all experts, or over the token's experts if `normalised`; top: the
 * token's largest logit. 1 <= top_k <= experts, tokens * top_k < 2^31. */
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

/* y[a,:] = x[a,:] * w(e)^T, with gemm's arithmetic, for every assignment a of expert e: w(e), [out, in], a single
 * matrix, begins e * w.step bytes after w.data. x: [assignments, in], y: [assignments, out]. With LH_ORDER_FIXED the bits are gemm's. */
typedef struct lh_expert_gemm_args {
    float *y;
    const void *x;
    lh_matrix w;
    lh_dtype type; /* of x */
    lh_routes routes;
    int64_t out, in, y_ld, x_ld;
    lh_order order;
} lh_expert_gemm_args;

/* y[t,i] = one chain of fused multiply-adds in f32, from 0, over c = 0, 1, … of weight[t,c] * x[assignment[t,c],i]. */
typedef struct lh_combine_args {
    float *y;       /* [tokens, dim] */
    const float *x; /* [assignments, dim] */
    lh_routes routes;
    int64_t dim;
} lh_combine_args;

#endif
