#include "policies/policy.h"

const lh_policy_preset lh_policy_streaming_kvpress = {
    .name = "streaming@kvpress",
    .summary = "StreamingLLMPress of kvpress 0.5.5",
    .paper = "arXiv 2309.17453",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {.statistic = "position", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "never"}};
