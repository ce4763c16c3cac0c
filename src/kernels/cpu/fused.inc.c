/* Operations that follow each other: what one writes is in the caches when the next one reads it. */
#include "kernels/cpu/common.h"
#include "kernels/in_turn.h"

extern const lh_ops LH_TABLE;

static lh_status op_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    return lh_norm_gemm_in_turn(&LH_TABLE, stream, a);
}

static lh_status op_rope_append(lh_stream *stream, const lh_rope_append_args *a)
{
    return lh_rope_append_in_turn(&LH_TABLE, stream, a);
}
