#include "policies/policy.h"

const lh_policy_preset lh_policy_roco = {.name = "roco",
                                         .summary = "as mas, and entries whose attention varies most are kept",
                                         .alias = "easykv",
                                         .paper = "arXiv 2402.06262",
                                         .parts = {.statistic = "mas",
                                                   .window = "0",
                                                   .rows = "all",
                                                   .pool = "none",
                                                   .sinks = "4",
                                                   .recents = "10",
                                                   .head_budget = "uniform",
                                                   .select = "std-scope",
                                                   .std_share = "0.3",
                                                   .evict = "every:1"}};
