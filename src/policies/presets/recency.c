#include "policies/policy.h"

const lh_policy_preset lh_policy_recency = {
    .name = "recency",
    .summary = "the most recent tokens",
    .kind = LH_POLICY_BASELINE,
    .parts = {.statistic = "position", .sinks = "0", .head_budget = "uniform", .select = "topk", .evict = "every:1"}};
