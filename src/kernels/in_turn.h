/* in_turn.h - the operations of ops_fused.h as their parts, one after the other. */
#ifndef LH_KERNELS_IN_TURN_H
#define LH_KERNELS_IN_TURN_H

#include "kernels/ops.h"

/* The rows that are multiplied. */
static inline lh_status lh_norm_rows(const lh_ops *ops, lh_stream *stream, const lh_rmsnorm_args *n)
{
    const lh_convert_args convert = {.dst = n->y,
                                     .src = n->x,
                                     .dst_type = n->y_type,
                                     .src_type = LH_F32,
                                     .rows = n->tokens,
                                     .cols = n->dim,
                                     .dst_ld = n->y_ld,
                                     .src_ld = n->x_ld};
    return n->w ? ops->rmsnorm(stream, n) : ops->convert(stream, &convert);
}

static inline lh_status lh_norm_gemm_in_turn(const lh_ops *ops, lh_stream *stream, const lh_norm_gemm_args *a)
{
    LH_TRY(lh_norm_rows(ops, stream, &a->norm));
    LH_TRY(ops->gemm(stream, &a->gemm));
    if (a->gated.y) LH_TRY(ops->gated(stream, &a->gated));
    return LH_OK;
}

static inline lh_status lh_rope_append_in_turn(const lh_ops *ops, lh_stream *stream, const lh_rope_append_args *a)
{
    if (a->q_norm.heads) LH_TRY(ops->rmsnorm(stream, &a->q_norm));
    if (a->k_norm.heads) LH_TRY(ops->rmsnorm(stream, &a->k_norm));
    if (a->q.heads) LH_TRY(ops->rope(stream, &a->q));
    if (a->k.heads) LH_TRY(ops->rope(stream, &a->k));
    LH_TRY(ops->append(stream, &a->append));
    return LH_OK;
}

#endif
