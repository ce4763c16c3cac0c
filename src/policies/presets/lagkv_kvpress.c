#include "policies/policy.h"

const lh_policy_preset lh_policy_lagkv_kvpress = {
    .name = "lagkv@kvpress",
    .summary = "LagKVPress of kvpress 0.5.5",
    .paper = "arXiv 2504.04704",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {
        .statistic = "lag", .lag = "128", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "never"}};
