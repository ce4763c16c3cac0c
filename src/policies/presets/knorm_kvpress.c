#include "policies/policy.h"

const lh_policy_preset lh_policy_knorm_kvpress = {
    .name = "knorm@kvpress",
    .summary = "KnormPress of kvpress 0.5.5",
    .paper = "arXiv 2406.11430",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {.statistic = "key-norm", .head_budget = "uniform", .select = "topk", .evict = "never"}};
