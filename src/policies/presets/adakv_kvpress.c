#include "policies/policy.h"

const lh_policy_preset lh_policy_adakv_kvpress = {.name = "adakv@kvpress",
                                                  .summary = "AdaKVPress over SnapKVPress of kvpress 0.5.5",
                                                  .paper = "arXiv 2407.11550",
                                                  .kind = LH_POLICY_COMPATIBLE,
                                                  .parts = {.statistic = "mean",
                                                            .window = "64",
                                                            .group = "mean",
                                                            .pool = "avg",
                                                            .pool_size = "5",
                                                            .group_stage = "score",
                                                            .head_budget = "adaptive",
                                                            .alpha = "0.2",
                                                            .safeguard = "floor",
                                                            .select = "topk",
                                                            .compat = "kvpress",
                                                            .evict = "never"}};
