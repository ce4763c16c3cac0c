/* ops_fused.h - operations of a layer that follow each other, as one: a backend may do them in one kernel. What each
 * means is its parts, one after the other (in_turn.h). Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_FUSED_H
#define LH_KERNELS_OPS_FUSED_H

#include "kernels/ops_cache.h"
#include "kernels/ops_model.h"

/* rmsnorm of whole rows (norm.w NULL: convert), gemm of what it gives, and, with gated.y, gated of what that gives.
 * norm.y is gemm.x and, with gated.y, gemm.y has the gates and then what they meet: workspace, where anything may be
 * left, and where numbers may be rounded to gemm.type. */
typedef struct lh_norm_gemm_args {
    lh_rmsnorm_args norm;
    lh_gemm_args gemm;
    lh_gated_args gated;
} lh_norm_gemm_args;

/* rmsnorm of the heads of queries and of keys, in place, rope of both, and append; what has no heads is left out. All
 * have the rows of append, queries and keys are rotated alike but for q.scaling, and k_norm.x and k.x are append.k. */
typedef struct lh_rope_append_args {
    lh_rmsnorm_args q_norm, k_norm;
    lh_rope_args q, k;
    lh_append_args append;
} lh_rope_append_args;

#endif
