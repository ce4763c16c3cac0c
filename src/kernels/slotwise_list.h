/* slotwise_list.h - the operations of slotwise.h: LH_SLOTWISE(name, rows, columns, cost), or LH_SLOTWISE_KV(name, cost)
 * over the slots of a cache. cost: of a slot, where a copy costs 1. */
LH_SLOTWISE_KV(classify, 1)
LH_SLOTWISE_KV(position_scores, 1)
LH_SLOTWISE_KV(put_stats, 1)
LH_SLOTWISE_KV(random_scores, 4)
LH_SLOTWISE(share_scores, a->heads, a->cols, 1)
LH_SLOTWISE(split_counts, 1, a->heads, 1)
LH_SLOTWISE(weigh_scores, a->heads, a->ld, 1)
