/* attention.h - what the sources that observe attention have in common: rows of a window that are observed at an
 * eviction (source_window.c), their outputs (source_output_error.c), and statistics that go on (source_running.c). */
#ifndef LH_EVICT_ATTENTION_H
#define LH_EVICT_ATTENTION_H

#include "evict/evict_impl.h"

/* What a statistic of attention counts of every entry, and what it makes of it. */
typedef enum lh_column_kind { LH_COLUMN_SUMS, LH_COLUMN_COUNTS, LH_COLUMN_SQUARES, LH_COLUMN_LARGEST } lh_column_kind;
typedef struct lh_statistic {
    lh_column_kind column;
    lh_finish_kind finish;
    int per_row, per_head; /* true if it is divided by the rows; by the query heads of a group */
} lh_statistic;

/* LH_EUSAGE if no row is left to score. A check of statistics of attention. */
lh_status lh_check_scoring_rows(const lh_policy *policy);

/* 1, or the group where query heads are joined by their maximum, or after the pool. */
int64_t lh_attention_parts(const lh_policy_numbers *policy, const lh_heads *heads);

#endif
