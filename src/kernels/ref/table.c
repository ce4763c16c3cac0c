/* The table of the reference backend, and its fused operations. */
#include "kernels/ref/ref.h"

lh_status lh_ref_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    return lh_norm_gemm_in_turn(&lh_ops_ref, stream, a);
}

lh_status lh_ref_gemm_convert(lh_stream *stream, const lh_gemm_convert_args *a)
{
    return lh_gemm_convert_in_turn(&lh_ops_ref, stream, a);
}

lh_status lh_ref_rope_append(lh_stream *stream, const lh_rope_append_args *a)
{
    return lh_rope_append_in_turn(&lh_ops_ref, stream, a);
}

const lh_ops lh_ops_ref = {.name = "ref",
                           .device = LH_DEVICE_CPU,
#define LH_OP(op, summary) .op = lh_ref_##op,
                           LH_OPS(LH_OP)
#undef LH_OP
};
