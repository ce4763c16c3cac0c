#include "policies/policy.h"

const lh_policy_preset lh_policy_pyramidkv = {.name = "pyramidkv",
                                              .summary = "as snapkv, with more entries for lower layers",
                                              .paper = "arXiv 2406.02069",
                                              .parts = {.statistic = "mean",
                                                        .window = "32",
                                                        .pool = "max",
                                                        .pool_size = "7",
                                                        .head_budget = "uniform",
                                                        .layer_budget = "pyramid",
                                                        .beta = "20",
                                                        .select = "topk",
                                                        .evict = "never"}};
