#include "policies/policy.h"

const lh_policy_preset lh_policy_streaming = {
    .name = "streaming",
    .summary = "attention sinks and the most recent tokens",
    .alias = "streamingllm",
    .paper = "arXiv 2309.17453",
    .parts = {.statistic = "position", .sinks = "4", .head_budget = "uniform", .select = "topk", .evict = "every:1"}};
