/* turns.h - entries that are chosen by two scores: by turns the best of one and the best of the other. */
#ifndef LH_EVICT_TURNS_H
#define LH_EVICT_TURNS_H

#include "evict/evict_impl.h"

/* LH_SPACE_SECOND and LH_SPACE_TURNS. */
void lh_turn_space(const lh_space_request *request, int64_t *bytes);

/* '--select topk+keys'. `scores` [kv_count, ld] become those of the turns, by rank: the i-th best of a head by score is
 * worth -i / (1 - share), by its key -i / share, and each entry the larger of both. Keys are ranked as by
 * '--statistic key-difference' (KeyDiff, arXiv 2504.15364), as means over the pool of the policy where it has one. */
void lh_take_turns_with_keys(lh_evictor *evictor, const lh_evict_job *job, float *scores);

#endif
