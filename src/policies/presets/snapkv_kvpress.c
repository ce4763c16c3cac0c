#include "policies/policy.h"

const lh_policy_preset lh_policy_snapkv_kvpress = {.name = "snapkv@kvpress",
                                                   .summary = "SnapKVPress of kvpress 0.5.5",
                                                   .paper = "arXiv 2404.14469",
                                                   .kind = LH_POLICY_COMPATIBLE,
                                                   .parts = {.statistic = "mean",
                                                             .window = "64",
                                                             .group = "mean",
                                                             .pool = "avg",
                                                             .pool_size = "5",
                                                             .group_stage = "score",
                                                             .head_budget = "uniform",
                                                             .select = "topk",
                                                             .evict = "never"}};
