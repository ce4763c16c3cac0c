/* entry_stats.h - the numbers that a policy keeps with every entry, and which of an arena's numbers is what. */
#ifndef LH_EVICT_ENTRY_STATS_H
#define LH_EVICT_ENTRY_STATS_H

#include "exec/heads.h"
#include "kernels/ops.h"
#include "policies/budgets.h"

/* Index of each among the numbers of an entry, -1: not kept. */
typedef struct lh_entry_stats {
    int64_t score;         /* while layers compete: the score itself */
    int64_t counts;        /* rows that gave the entry more than their mean weight */
    int64_t sums;          /* sums of attention, `parts` of them */
    int64_t squares;       /* sums of squares */
    int64_t priors, norms; /* the squared norm of its value; the norm that weighs its score */
    int64_t parts;         /* query heads whose numbers are kept apart: 1, or the group */
    int64_t count;         /* of all numbers */
} lh_entry_stats;

lh_entry_stats lh_entry_stats_of(const lh_policy_numbers *policy, const lh_heads *heads);

/* Query heads whose scores are kept apart until they are joined: 1, or the group. */
int64_t lh_score_parts(const lh_policy_numbers *policy, const lh_heads *heads);

/* 1 where evictions go on after the one at the end of prefill, or while it lasts; and where they then observe query
 * rows. */
int lh_evicts_again(const lh_policy_numbers *policy);
int lh_observes_again(const lh_policy_numbers *policy);

/* One of the numbers of a view, for operations; at NULL where `index` is -1. */
lh_slot_floats lh_stat_of(const lh_ragged *view, int64_t index);

/* [kv_count * parts, ld] as slot numbers; and slot numbers from KV head g on. */
lh_slot_floats lh_slot_rows(void *at, int64_t parts, int64_t ld);
lh_slot_floats lh_slots_from_head(lh_slot_floats f, int64_t g);

/* A view of KV head g alone. */
lh_ragged lh_one_head(const lh_ragged *view, int64_t g);

#endif
