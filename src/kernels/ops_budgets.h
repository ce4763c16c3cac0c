/* ops_budgets.h - the best entries of many heads, and what each head may keep of its own: AdaKV's budgets (arXiv
 * 2407.11550), for one layer or several, over all ranks, without sending scores. Operations and formulas as in ops.h.
 *
 * The threshold, the score key of the last entry that is among the best, is found in three rounds of 11, 11 and 10
 * bits, all in device memory. In each round every rank makes the histograms of its heads (histogram, ops_select.h) and
 * adds them up (add_histograms); the ranks add their sums, and each finds the bin in which the last of the best is
 * (refine_threshold). Then the ranks exchange their heads' candidate counts, and head_budgets works out what every head
 * of all ranks keeps. Arrays [heads, layers] have the layers of a head side by side. All heads of all ranks together
 * have less than 2^31 competing entries. */
#ifndef LH_KERNELS_OPS_BUDGETS_H
#define LH_KERNELS_OPS_BUDGETS_H

#include <stdint.h>

#include "base/fraction.h"

/* What a search knows after a round. */
typedef struct lh_search {
    int64_t want;    /* of the best, how many have this prefix */
    uint32_t prefix; /* the upper bits of the key of the last of them */
} lh_search;

/* What is known of a head: how many of its entries compete, and how many of them are above the prefix and at it. */
typedef struct lh_candidate_counts {
    int32_t competing, above, at;
} lh_candidate_counts;

/* What the heads of a layer have whatever their scores are. floor: their best so many entries, which do not compete
 * with those of other heads. sure: so many more than their share of the best. */
typedef struct lh_head_safeguard {
    int64_t floor, bonus;
} lh_head_safeguard;

/* sums[b] = sum over heads and layers of histograms[h,l,b], but each leaves out its best floor - candidates[h,l].above
 * entries (none where that is less than 0); sums[2^bits] = how many were left out. sums: [2^bits + 1]. */
typedef struct lh_add_histograms_args {
    int32_t *sums;
    const int32_t *histograms;             /* [heads, layers, 2^bits] */
    const lh_candidate_counts *candidates; /* [heads, layers]; NULL in the first round: nothing is above */
    const lh_head_safeguard *safeguards;   /* [layers], NULL: `safeguard` for all */
    lh_head_safeguard safeguard;
    int64_t heads, layers;
    int bits;
} lh_add_histograms_args;

/* With sums of all ranks: the bin, from the last one down, in which the from->want best are complete (0 where there are
 * fewer). It goes to the end of to->prefix, and to->want is from->want without what is above it. In the first round,
 * `from` NULL, the wanted ones are those that are not left out of the `most` best, or of all entries where there are
 * fewer. candidates[h,l]: above += what is above the bin, at = what is in it; competing is set in the first round.
 * `from` and `to` are not the same. */
typedef struct lh_refine_threshold_args {
    lh_search *to;
    const lh_search *from;
    lh_candidate_counts *candidates; /* [heads, layers] */
    const int32_t *histograms;       /* [heads, layers, 2^bits] */
    const int32_t *sums;             /* [2^bits + 1] */
    int64_t heads, layers, most;
    int bits;
} lh_refine_threshold_args;

/* What heads keep of their competing entries, with what refine_threshold has found in the last round. Chosen are those
 * above the prefix, and of those at it search->want, the first ones by layer and then by head; but those that are a
 * head's already are no choice: g = min(floor, competing) of the best. counts = min(g + floor(chosen * share) + sure,
 * competing). While these sum to less than `most` (and than all entries), one more goes to the head that has not all of
 * its entries and for which g + chosen * share + sure - counts is largest, ties by layer and then by head. With a share
 * of 1 - alpha and alpha * base to be sure of: AdaKV's safeguard (arXiv 2407.11550, algorithm 1), in whole numbers. */
typedef struct lh_head_budgets_args {
    int64_t *counts;                       /* [heads, layers] */
    const lh_candidate_counts *candidates; /* [heads, layers] */
    const lh_search *search;
    const lh_head_safeguard *safeguards; /* [layers], NULL: `safeguard` for all */
    lh_head_safeguard safeguard;
    lh_fraction share; /* at most 1 */
    int64_t heads, layers, most;
} lh_head_budgets_args;

#endif
