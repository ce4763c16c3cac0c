/* attention.h - what the sources that observe attention have in common: rows of a window that are observed at an
 * eviction (source_window.c), their outputs (source_output_error.c), and statistics that go on (source_running.c). */
#ifndef LH_EVICT_ATTENTION_H
#define LH_EVICT_ATTENTION_H

#include "evict/evict_impl.h"

/* 1, or the group where query heads are joined by their maximum, or after the pool. */
int64_t lh_attention_parts(const lh_policy_numbers *policy, const lh_heads *heads);

#endif
