/* turns.h - entries that are chosen by several scores: by turns the best of each. */
#ifndef LH_EVICT_TURNS_H
#define LH_EVICT_TURNS_H

#include "evict/evict_impl.h"

/* '--select topk+keys'. `scores` [kv_count, ld] become those of the turns, by rank: the i-th best of a head by a score
 * that takes a share of the turns is worth -i / share, and each entry the most of what it is worth. Beside `scores`
 * there are keys, ranked as by '--statistic key-difference' (KeyDiff, arXiv 2504.15364); and, with '--row-share', the
 * squares of the weights that the references (kept_rows.h) and all query heads of the group give. Both are means over
 * the pool of the policy where it has one. */
void lh_take_turns(lh_evictor *evictor, const lh_evict_job *job, float *scores);

#endif
