#include "policies/policy.h"

/* For questions that come after the eviction: entries whose keys stand apart, in two ways, and those that rows after the
 * prompt attend to, in shares of the budget that are measured on the prompt, and fitted (docs/results.md). */
const lh_policy_preset lh_policy_ask_later = {.name = "ask-later",
                                              .summary =
                                                  "for questions to come: what stands apart, shared out and fitted",
                                              .kind = LH_POLICY_OWN,
                                              .parts = {.statistic = "leverage",
                                                        .pool = "avg",
                                                        .pool_size = "11",
                                                        .sinks = "8",
                                                        .recents = "10%",
                                                        .head_budget = "adaptive",
                                                        .compete_by = "losses",
                                                        .alpha = "0.2",
                                                        .safeguard = "interp",
                                                        .layer_budget = "adaptive",
                                                        .select = "topk+keys",
                                                        .row_share = "0.3",
                                                        .fit = "both",
                                                        .evict = "never"}};
