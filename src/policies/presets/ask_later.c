#include "policies/policy.h"

/* For questions that come after the eviction: what later text leans on and what stands apart by its key, in shares of
 * the budget that are measured on the prompt, and fitted (docs/results.md). */
const lh_policy_preset lh_policy_ask_later = {
    .name = "ask-later",
    .summary = "for questions to come: what later text leans on and what stands apart, fitted",
    .kind = LH_POLICY_OWN,
    .parts = {.statistic = "rms",
              .window = "16",
              .rows_at = "after",
              .rows = "sample:128",
              .pool = "max",
              .pool_size = "15",
              .sinks = "4",
              .head_budget = "adaptive",
              .compete_by = "losses",
              .alpha = "0.2",
              .safeguard = "interp",
              .layer_budget = "adaptive",
              .select = "topk+keys",
              .fit = "both",
              .evict = "never"}};
