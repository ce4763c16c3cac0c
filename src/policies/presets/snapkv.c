#include "policies/policy.h"

const lh_policy_preset lh_policy_snapkv = {.name = "snapkv",
                                           .summary = "what the last rows of the prompt attend to",
                                           .paper = "arXiv 2404.14469",
                                           .parts = {.statistic = "mean",
                                                     .window = "32",
                                                     .pool = "max",
                                                     .pool_size = "7",
                                                     .head_budget = "uniform",
                                                     .select = "topk",
                                                     .evict = "never"}};
