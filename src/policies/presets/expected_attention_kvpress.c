#include "policies/policy.h"

const lh_policy_preset lh_policy_expected_attention_kvpress = {
    .name = "expected-attention@kvpress",
    .summary = "ExpectedAttentionPress of kvpress 0.5.5",
    .paper = "arXiv 2510.00636",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {.statistic = "expected", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "never"}};
