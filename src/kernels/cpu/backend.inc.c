/* The whole backend, compiled once per instruction set: isa_*.c define
 * LH_VEC_HEADER, TILE_ROWS (rows of the tile that the registers hold) and
 * LH_TABLE (the name of the table). All functions are static to their set. */
#include "kernels/cpu/attend_block.inc.c"
#include "kernels/cpu/attend_decode.inc.c"
#include "kernels/cpu/cache.inc.c"
#include "kernels/cpu/column_stats.inc.c"
#include "kernels/cpu/draws.inc.c"
#include "kernels/cpu/expected.inc.c"
#include "kernels/cpu/gemm.inc.c"
#include "kernels/cpu/joint.inc.c"
#include "kernels/cpu/logits.inc.c"
#include "kernels/cpu/norms.inc.c"
#include "kernels/cpu/pool.inc.c"
#include "kernels/cpu/projected.inc.c"
#include "kernels/cpu/row_lse.inc.c"
#include "kernels/cpu/rows.inc.c"
#include "kernels/cpu/scores.inc.c"
#include "kernels/cpu/select.inc.c"
#include "kernels/cpu/shares.inc.c"

const lh_ops LH_TABLE = {
    .name = "cpu",
#define LH_OP(op, summary) .op = op_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
