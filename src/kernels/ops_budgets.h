/* ops_budgets.h - the best entries of many heads, and the number of entries that each head keeps: AdaKV's budgets
 * (arXiv 2407.11550), for one layer or several, over all ranks, without sending scores. Conventions: ops.h.
 *
 * The threshold, the score key of the last of the best entries, is found in three rounds of 11, 11 and 10 bits, all in
 * device memory. In each round every rank makes the histograms of its heads (histogram, ops_select.h) and adds them
 * (add_histograms): its score summary. An all-gather gives every rank all summaries; each rank adds them and finds the
 * bin of the last of the best entries (refine_threshold). Then the ranks exchange the candidate counts of their heads,
 * and head_budgets computes the count of every head of all ranks. Arrays [heads, layers] have the layers of a head side
 * by side. All heads of all ranks together have less than 2^31 competing entries. */
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
    int64_t want;    /* number of entries with this prefix among the best */
    uint32_t prefix; /* the upper bits of the threshold */
} lh_search;

/* Candidate counts of a head: competing entries, and those with a key above the prefix and at the prefix. */
typedef struct lh_candidate_counts {
    int32_t competing, above, at;
} lh_candidate_counts;

/* Limits of one layer. floor: each head keeps its best `floor` entries unconditionally, outside the competition; bonus:
 * extra entries, added to the head's share of the best. most: entries that all heads of the contest that begins with
 * this layer may keep together. */
typedef struct lh_layer_limits {
    int64_t floor, bonus, most;
} lh_layer_limits;

/* The heads that compete with each other: all heads of all layers in one contest, or the heads of each layer in one
 * contest per layer. */
typedef struct lh_contests {
    int64_t heads, layers;
    int each_layer;
} lh_contests;

static LH_BOTH inline int64_t lh_contest_count(const lh_contests *of)
{
    return of->each_layer ? of->layers : 1;
}

/* sums[c,b] = sum over the heads and layers of contest c of histograms[h,l,b], without the best max(0, floor -
 * candidates[h,l].above) entries of each; sums[c,2^bits] = number of entries left out. sums: [contests, 2^bits + 1]. */
typedef struct lh_add_histograms_args {
    int32_t *sums;
    const int32_t *histograms;             /* [heads, layers, 2^bits] */
    const lh_candidate_counts *candidates; /* [heads, layers]; NULL in the first round, when no entry is above */
    const lh_layer_limits *limits;         /* [layers] */
    lh_contests of;
    int bits;
} lh_add_histograms_args;

/* For each contest c, with sums[b] = sum over ranks of summaries[r,c,b] from add_histograms: finds the bin, from the
 * last one down, in which the from[c].want best are complete (0 if there are fewer), appends it to to[c].prefix, and
 * sets to[c].want to from[c].want minus the entries above the bin. First round (`from` NULL): want = min(most, number
 * of entries) - number left out. candidates[h,l]: above += entries above the bin, at = entries in it; competing is set
 * in the first round. `from` and `to` differ. */
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
 * min(floor, competing), the head's guaranteed entries. chosen: its further entries above the threshold, and
 * search[c].want of the entries at the threshold, the first ones by layer and then by head. counts[l,h] = min(g +
 * floor(chosen * share) + bonus, competing). While these sum to less than most (and less than all entries), one
 * more goes to the head with entries left for which g + chosen * share + bonus - counts is largest, ties by layer
 * and then by head. With share 1 - alpha and bonus alpha * base: AdaKV's safeguard (arXiv 2407.11550, algorithm 1),
 * in integers. */
typedef struct lh_head_budgets_args {
    int64_t *counts;                       /* [layers, heads] */
    const lh_candidate_counts *candidates; /* [heads, layers] */
    const lh_search *search;               /* [contests] */
    const lh_layer_limits *limits;         /* [layers] */
    lh_contests of;
    lh_fraction share; /* at most 1 */
} lh_head_budgets_args;

#endif
