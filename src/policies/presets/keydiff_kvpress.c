#include "policies/policy.h"

const lh_policy_preset lh_policy_keydiff_kvpress = {
    .name = "keydiff@kvpress",
    .summary = "KeyDiffPress of kvpress 0.5.5",
    .paper = "arXiv 2504.15364",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {.statistic = "key-difference", .head_budget = "uniform", .select = "topk", .evict = "never"}};
