#include "policies/policy.h"

const lh_policy_preset lh_policy_mas = {.name = "mas",
                                        .summary = "the mean attention of the rows that could see an entry",
                                        .paper = "arXiv 2402.06262",
                                        .parts = {.statistic = "mas",
                                                  .window = "0",
                                                  .rows = "all",
                                                  .pool = "none",
                                                  .head_budget = "uniform",
                                                  .select = "topk",
                                                  .evict = "every:1"}};
