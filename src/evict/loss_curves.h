/* loss_curves.h - heads that compete by what their output loses ('--compete-by losses'). Entries are ordered by score;
 * for each head, the output of reference rows (after the prompt) over the best k entries is compared with that over
 * all of them, for k in doubles. What an entry more gains, the slope of that curve, is comparable between heads, and,
 * as a share of what the heads of a layer put out, between layers; scores are not. */
#ifndef LH_EVICT_LOSS_CURVES_H
#define LH_EVICT_LOSS_CURVES_H

#include "evict/evict_impl.h"

/* Collective where groups are split, and where layers compete. lh_evictor.loss_gains =
 * what each competing entry gains, in the order of `scores` in each head. */
void lh_score_gains(lh_evictor *evictor, const lh_evict_job *job, const float *scores);

#endif
