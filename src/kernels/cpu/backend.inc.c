/* The whole backend, compiled once per instruction set: isa_*.c define
 * LH_VEC_HEADER, TILE_ROWS (rows of the tile that the registers hold) and
 * LH_TABLE (the name of the table). All functions are static to their set. */
#include "kernels/cpu/append.inc.c"
#include "kernels/cpu/attend_block.inc.c"
#include "kernels/cpu/attend_decode.inc.c"
#include "kernels/cpu/column_stats.inc.c"
#include "kernels/cpu/compact.inc.c"
#include "kernels/cpu/elementwise.inc.c"
#include "kernels/cpu/expected_scores.inc.c"
#include "kernels/cpu/fit.inc.c"
#include "kernels/cpu/fused.inc.c"
#include "kernels/cpu/gather_entries.inc.c"
#include "kernels/cpu/gemm.inc.c"
#include "kernels/cpu/experts.inc.c"
#include "kernels/cpu/head_budgets.inc.c"
#include "kernels/cpu/histogram.inc.c"
#include "kernels/cpu/lag_scores.inc.c"
#include "kernels/cpu/norms.inc.c"
#include "kernels/cpu/order_entries.inc.c"
#include "kernels/cpu/pool.inc.c"
#include "kernels/cpu/projected_norms.inc.c"
#include "kernels/cpu/row_lse.inc.c"
#include "kernels/cpu/row_moments.inc.c"
#include "kernels/cpu/random_weights.inc.c"
#include "kernels/cpu/rows.inc.c"
#include "kernels/cpu/sampling.inc.c"
#include "kernels/cpu/scores.inc.c"
#include "kernels/cpu/select_top.inc.c"
#include "kernels/cpu/slotwise.inc.c"
#include "kernels/cpu/top_logits.inc.c"

const lh_ops LH_TABLE = {
    .name = "cpu",
#define LH_OP(op, summary) .op = op_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
