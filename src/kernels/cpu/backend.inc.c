/* The whole backend, compiled once per instruction set: isa_*.c define LH_VEC_HEADER, TILE_ROWS (rows of a tile in
 * registers), TOKEN_TILES (tokens of the tiles of packed.inc.c) and LH_TABLE (the name of the table). All functions are
 * static. */
#include "kernels/cpu/attend_block.inc.c"
#include "kernels/cpu/attend_decode.inc.c"
#include "kernels/cpu/cache.inc.c"
#include "kernels/cpu/column_stats.inc.c"
#include "kernels/cpu/experts.inc.c"
#include "kernels/cpu/fit.inc.c"
#include "kernels/cpu/gemm.inc.c"
#include "kernels/cpu/norms.inc.c"
#include "kernels/cpu/packed.inc.c"
#include "kernels/cpu/pool.inc.c"
#include "kernels/cpu/row_lse.inc.c"
#include "kernels/cpu/rows.inc.c"
#include "kernels/cpu/sample.inc.c"
#include "kernels/cpu/scores.inc.c"
#include "kernels/cpu/select.inc.c"

extern const lh_ops LH_TABLE;

static lh_status op_norm_gemm(lh_stream *stream, const lh_norm_gemm_args *a)
{
    return lh_norm_gemm_in_turn(&LH_TABLE, stream, a);
}

static lh_status op_gemm_convert(lh_stream *stream, const lh_gemm_convert_args *a)
{
    return lh_gemm_convert_in_turn(&LH_TABLE, stream, a);
}

static lh_status op_rope_append(lh_stream *stream, const lh_rope_append_args *a)
{
    return lh_rope_append_in_turn(&LH_TABLE, stream, a);
}

const lh_ops LH_TABLE = {.name = "cpu",
#define LH_OP(op, summary) .op = op_##op,
                         LH_OPS(LH_OP)
#undef LH_OP
};
