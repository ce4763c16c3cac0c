#include "policies/policy.h"

const lh_policy_preset lh_policy_observed_kvpress = {
    .name = "observed@kvpress",
    .summary = "ObservedAttentionPress of kvpress 0.5.5: mas without decoding",
    .paper = "arXiv 2306.14048",
    .kind = LH_POLICY_COMPATIBLE,
    .parts = {.statistic = "mas",
              .window = "0",
              .rows = "all",
              .pool = "none",
              .head_budget = "uniform",
              .select = "topk",
              .evict = "never"}};
