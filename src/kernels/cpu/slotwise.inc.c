/* Operations on slots one by one (slotwise.h): heads are divided into blocks of slots. The arguments are copied, since
 * a store of a state may change whatever a pointer leads to, as far as C knows. */
#include "kernels/slotwise.h"
#include "kernels/cpu/common.h"

/* Slots of a block. */
enum { SLOT_BLOCK = 1 << 13 };

#define SLOTWISE_OP(op, rows, cols, cost)                                     \
    static lh_status op_##op(lh_stream *stream, const lh_##op##_args *a)      \
    {                                                                         \
        int64_t blocks = ((cols) + SLOT_BLOCK - 1) / SLOT_BLOCK;              \
        (void)stream;                                                         \
        FOR_EACH(n, (rows)*blocks, (rows) * (cols) >= PARALLEL_FROM / (cost), \
                 op##_block(a, n / blocks, n % blocks * SLOT_BLOCK));         \
        return LH_OK;                                                         \
    }

#define LH_SLOTWISE(op, rows, cols, cost)                                                         \
    static void op##_block(const lh_##op##_args *args, int64_t h, int64_t first)                  \
    {                                                                                             \
        const lh_##op##_args copy = *args, *a = &copy;                                            \
        lh_##op##_slots(a, h, (lh_slot_range){first, lh_min_i64(first + SLOT_BLOCK, (cols)), 1}); \
    }                                                                                             \
    SLOTWISE_OP(op, rows, cols, cost)
#define LH_SLOTWISE_KV(op, cost) LH_SLOTWISE(op, a->kv->heads, a->ld, cost)
#include "kernels/slotwise_list.h"
LH_SLOTWISE(classify, (a->batch * a->kv->heads), a->ld, 1)
LH_SLOTWISE(add_heads, a->batch, a->cols, 4)
LH_SLOTWISE(sum_shards, 1, a->count, a->shards + 1)
#undef LH_SLOTWISE
#undef LH_SLOTWISE_KV

/* A loop over draws becomes vector code, one with logarithms does not. */
static void gumbel_scores_block(const lh_gumbel_scores_args *a, int64_t h, int64_t first)
{
    const int32_t *positions = lh_positions_of(a->kv, h);
    const int64_t n = lh_min_i64(SLOT_BLOCK, a->kv->len[h] - first), at = h * a->ld + first;
    uint32_t words[SLOT_BLOCK];
    for (int64_t i = 0; i < n; i++)
        words[i] = lh_draw_word(&a->draw, h, (uint32_t)(positions ? positions[first + i] : first + i));
    for (int64_t i = 0; i < n; i++) a->y[at + i] = lh_gumbel_score(a, a->x[at + i], words[i]);
}
SLOTWISE_OP(gumbel_scores, a->kv->heads, a->ld, 16)
