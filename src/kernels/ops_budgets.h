/* ops_budgets.h - the best entries of many heads, and what each head may keep of its own: AdaKV's budgets (arXiv
 * 2407.11550), for one layer or several, over all ranks, without sending scores. Operations and formulas as in ops.h.
 *
 * The threshold, the score key of the last entry that is among the best, is found in three rounds of 11, 11 and 10
 * bits, all in device memory. In each round every rank makes the histograms of its heads (histogram, ops_select.h) and
 * adds them up (add_histograms): its score summary. An all-gather gives every rank all summaries; each adds them up and
 * finds the bin in which the last of the best is (refine_threshold). Then the ranks exchange their heads' candidate
 * counts, and head_budgets works out what every head of all ranks keeps. Arrays [heads, layers] have the layers of a
 * head side by side. All heads of all ranks together have less than 2^31 competing entries. */
#ifndef LH_KERNELS_OPS_BUDGETS_H
#define LH_KERNELS_OPS_BUDGETS_H

#include <stdint.h>

#include "base/both.h"
#include "base/fraction.h"

/* X(operation, summary) of this family. */
#define LH_OPS_BUDGETS(X)                                                                  \
    X(add_histograms, "sum of the histograms of heads, without their safeguarded entries") \
    X(refine_threshold, "threshold of the best entries of all heads, one radix round")     \
    X(head_budgets, "entries that each head keeps, with a safeguard (AdaKV)")

/* The state of the search after a round. */
typedef struct lh_search {
    int64_t want;    /* number of entries with this prefix that are among the best */
    uint32_t prefix; /* the upper bits of the threshold */
} lh_search;

/* Candidate counts of a head: entries that compete, and those of them whose key is above the prefix and at it. */
typedef struct lh_candidate_counts {
    int32_t competing, above, at;
} lh_candidate_counts;

/* Limits of one layer. Of each head: floor: its own best `floor` entries are kept unconditionally and do not compete
 * with those of other heads; bonus: extra entries, added to its share of the best. Of the contest that begins with the
 * layer: entries that all of its heads together may keep. */
typedef struct lh_layer_limits {
    int64_t floor, bonus, most;
} lh_layer_limits;

/* Which heads compete with each other: those of all layers, in one contest, or those of each layer, in as many. */
typedef struct lh_contests {
    int64_t heads, layers;
    int each_layer;
} lh_contests;

static LH_BOTH inline int64_t lh_contest_count(const lh_contests *of)
{
    return of->each_layer ? of->layers : 1;
}

/* sums[c,b] = sum over the heads and layers of contest c of histograms[h,l,b], but each leaves out its best max(0,
 * floor - candidates[h,l].above) entries; sums[c,2^bits] = number of entries left out. sums: [contests, 2^bits + 1]. */
typedef struct lh_add_histograms_args {
    int32_t *sums;
    const int32_t *histograms;             /* [heads, layers, 2^bits] */
    const lh_candidate_counts *candidates; /* [heads, layers]; NULL in the first round: nothing is above */
    const lh_layer_limits *limits;         /* [layers] */
    lh_contests of;
    int bits;
} lh_add_histograms_args;

/* For each contest c, sums[b] = sum over ranks of summaries[r,c,b], what add_histograms made on each: find the bin,
 * from the last one down, in which the from[c].want best are complete (0 where there are fewer), append it to
 * to[c].prefix, and set to[c].want to from[c].want minus the entries above it. First round (`from` NULL): want =
 * min(most, number of entries) - number left out. candidates[h,l]: above += entries above the bin, at = entries in
 * it; competing is set in the first round. `from` and `to` differ. */
typedef struct lh_refine_threshold_args {
    lh_search *to;                   /* [contests] */
    const lh_search *from;           /* [contests] */
    lh_candidate_counts *candidates; /* [heads, layers] */
    const int32_t *histograms;       /* [heads, layers, 2^bits] */
    const int32_t *summaries;        /* [ranks, contests, 2^bits + 1] */
    const lh_layer_limits *limits;   /* [layers] */
    lh_contests of;
    int64_t ranks;
    int bits;
} lh_refine_threshold_args;

/* counts[l,h]: number of competing entries that each head keeps, after the last round of refine_threshold. g =
 * min(floor, competing): the head's own. chosen: its other entries above the threshold, and search[c].want of those at
 * it, the first ones by layer and then by head. counts[l,h] = min(g + floor(chosen * share) + bonus, competing). While
 * these sum to less than most (and than all entries), one more goes to the head with entries left for which g +
 * chosen * share + bonus - counts is largest, ties by layer and then by head. With share 1 - alpha and bonus alpha *
 * base: AdaKV's safeguard (arXiv 2407.11550, algorithm 1), in integers. */
typedef struct lh_head_budgets_args {
    int64_t *counts;                       /* [layers, heads] */
    const lh_candidate_counts *candidates; /* [heads, layers] */
    const lh_search *search;               /* [contests] */
    const lh_layer_limits *limits;         /* [layers] */
    lh_contests of;
    lh_fraction share; /* at most 1 */
} lh_head_budgets_args;

#endif
