#include "policies/policy.h"

const lh_policy_preset lh_policy_expected_attention = {
    .name = "expected-attention",
    .summary = "what rows to come are expected to attend to",
    .paper = "arXiv 2510.00636",
    .parts = {.statistic = "expected", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "never"}};
