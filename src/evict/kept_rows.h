/* kept_rows.h - query rows of the prompt that are kept as they pass, to score the entries when the layer ends: the last
 * ones, proxies, or rows spread over the prompt; references beside them; and how rows are moved to positions after it.
 */
#ifndef LH_EVICT_KEPT_ROWS_H
#define LH_EVICT_KEPT_ROWS_H

#include "evict/evict_impl.h"

/* Those of `rows` that the policy observes. */
void lh_keep_rows(lh_evictor *ev, const lh_query_rows *rows);

/* Collective where groups are split. The rows that score, as they are counted (query_rows.c): those of the job (of a
 * ring, or of a trace, which are where the policy says), or those that were kept. By '--rows-at after' moved:
 * they see other entries from there. */
lh_row_block lh_scoring_rows(lh_evictor *ev, const lh_evict_job *job);

/* Collective where groups are split, at the first call of an eviction. The rows
 * that a fit, loss curves and turns look from: those that score, if they are moved after the prompt; of more than
 * lh_policy_reference_rows, every so many, evenly. Else those that were kept for it, or are the job's, moved likewise.
 */
lh_row_block lh_reference_rows(lh_evictor *ev, const lh_evict_job *job);

/* Where so many of them put out what a fit is to bring back: [kv_count, head_dim + 1, group x rows] (fit.h). Curves
 * make it on their way. */
float *lh_reference_outputs(lh_evictor *ev, int64_t rows);

#endif
