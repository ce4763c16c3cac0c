/* counted_rows.h - what rows of a window give to the entries, counted before the evictions that ask for it. Where
 * decoding observes the newest row alone (TOVA) it is counted as it passes, from the logits that its attention left: no
 * second reading of the keys at the eviction that follows. A replay counts a window once for evictions at all budgets.
 */
#ifndef LH_EVICT_COUNTED_ROWS_H
#define LH_EVICT_COUNTED_ROWS_H

#include "evict/evict.h"

/* 1 where sums are all that a policy asks of its window; and where decoding observes the newest row so, in layers that
 * do not slide. */
int lh_counted_rows_suffice(const lh_policy_numbers *policy);
int lh_counted_rows_latest(const lh_policy_numbers *policy, const lh_heads *heads);

/* Room for heads of the evictor's ld. */
void lh_counted_rows_reserve(lh_counted_rows *counted, lh_evictor *evictor);
void lh_counted_rows_free(lh_counted_rows *counted, lh_device *device);

/* Rows with their log-sum-exps, or a single row with known logits. job: their layer and entries, the entries of the
 * rows included. Groups are not split. */
void lh_counted_rows_take(lh_counted_rows *counted, lh_evictor *evictor, const lh_evict_job *job,
                          const lh_query_rows *rows);

#endif
