#include "policies/policy.h"

const lh_policy_preset lh_policy_pyramidkv_kvpress = {.name = "pyramidkv@kvpress",
                                                      .summary = "PyramidKVPress of kvpress 0.5.5",
                                                      .paper = "arXiv 2406.02069",
                                                      .kind = LH_POLICY_COMPATIBLE,
                                                      .parts = {.statistic = "mean",
                                                                .window = "64",
                                                                .group = "mean",
                                                                .pool = "avg",
                                                                .pool_size = "5",
                                                                .group_stage = "score",
                                                                .head_budget = "uniform",
                                                                .layer_budget = "pyramid",
                                                                .beta = "20",
                                                                .select = "topk",
                                                                .compat = "kvpress",
                                                                .evict = "never"}};
