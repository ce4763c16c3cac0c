/* latest_row.h - where decoding observes the newest row alone (TOVA), what it gives to the entries is counted as it
 * passes, from the logits that its attention left: no second reading of the keys at the eviction that follows. */
#ifndef LH_EVICT_LATEST_ROW_H
#define LH_EVICT_LATEST_ROW_H

#include "evict/evict.h"

/* 1 where a policy is observed so, in layers that do not slide. */
int lh_latest_row_counts(const lh_policy_numbers *policy, const lh_heads *heads);

/* Room for heads of the evictor's ld; returns 1 where it was reallocated. */
int lh_latest_row_reserve(lh_latest_row *latest, lh_evictor *evictor);
void lh_latest_row_free(lh_latest_row *latest, lh_device *device);

/* A single row whose logits are known. job: its layer and entries, that of the row included. */
void lh_latest_row_count(lh_latest_row *latest, lh_evictor *evictor, const lh_evict_job *job, const lh_query_rows *row);

#endif
