/* Operations on slots one by one (slotwise.h): head after head. */
#define LH_IN_DOUBLE
#include "kernels/slotwise.h"

#include "kernels/ref/ref.h"

#define LH_SLOTWISE(op, rows, cols, cost)                                                          \
    lh_status lh_ref_##op(lh_stream *stream, const lh_##op##_args *a)                              \
    {                                                                                              \
        (void)stream;                                                                              \
        for (int64_t h = 0; h < (rows); h++) lh_##op##_slots(a, h, (lh_slot_range){0, (cols), 1}); \
        return LH_OK;                                                                              \
    }
#define LH_SLOTWISE_KV(op, cost) LH_SLOTWISE(op, a->kv->heads, a->ld, cost)
#include "kernels/slotwise_list.h"
LH_SLOTWISE(classify, (a->batch * a->kv->heads), a->ld, 1)
LH_SLOTWISE(add_heads, a->batch, a->cols, 4)
LH_SLOTWISE(sum_shards, 1, a->count, a->shards + 1)
LH_SLOTWISE_KV(gumbel_scores, 16)
