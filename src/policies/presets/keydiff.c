#include "policies/policy.h"

const lh_policy_preset lh_policy_keydiff = {
    .name = "keydiff",
    .summary = "keys that differ from the mean key",
    .paper = "arXiv 2504.15364",
    .parts = {.statistic = "key-difference", .head_budget = "uniform", .select = "topk", .evict = "every:1"}};
