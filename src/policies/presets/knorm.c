#include "policies/policy.h"

const lh_policy_preset lh_policy_knorm = {
    .name = "knorm",
    .summary = "keys of small norm",
    .paper = "arXiv 2406.11430",
    .parts = {.statistic = "key-norm", .head_budget = "uniform", .select = "topk", .evict = "every:1"}};
