#include "policies/policy.h"

const lh_policy_preset lh_policy_leverage = {.name = "leverage",
                                             .summary = "keys that others cannot stand for",
                                             .paper = "arXiv 2507.08143",
                                             .parts = {.statistic = "leverage",
                                                       .sinks = "8",
                                                       .recents = "4",
                                                       .head_budget = "uniform",
                                                       .select = "topk",
                                                       .evict = "never"}};
