#include "policies/policy.h"

const lh_policy_preset lh_policy_critical_ada_kvpress = {.name = "critical-ada@kvpress",
                                                         .summary =
                                                             "CriticalAdaKVPress over SnapKVPress of kvpress 0.5.5",
                                                         .paper = "arXiv 2502.03805",
                                                         .kind = LH_POLICY_COMPATIBLE,
                                                         .parts = {.statistic = "mean",
                                                                   .window = "64",
                                                                   .group = "mean",
                                                                   .pool = "avg",
                                                                   .pool_size = "5",
                                                                   .group_stage = "score",
                                                                   .head_budget = "adaptive",
                                                                   .alpha = "0.2",
                                                                   .safeguard = "floor",
                                                                   .select = "two-stage",
                                                                   .first_stage = "0.5",
                                                                   .compat = "kvpress",
                                                                   .evict = "never"}};
