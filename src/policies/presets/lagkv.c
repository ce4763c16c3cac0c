#include "policies/policy.h"

const lh_policy_preset lh_policy_lagkv = {
    .name = "lagkv",
    .summary = "keys and values that deviate, on the scale of the next part of the text",
    .paper = "arXiv 2504.04704",
    .parts = {
        .statistic = "lag", .lag = "128", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "never"}};
