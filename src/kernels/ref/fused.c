/* Operations that follow each other. */
#include "kernels/in_turn.h"
#include "kernels/ref/ref.h"

lh_status lh_ref_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    return lh_norm_gemm_in_turn(&lh_ops_ref, stream, a);
}

lh_status lh_ref_rope_append(lh_stream *stream, const lh_rope_append_args *a)
{
    return lh_rope_append_in_turn(&lh_ops_ref, stream, a);
}
