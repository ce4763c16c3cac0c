#include "policies/policy.h"

const lh_policy_preset lh_policy_h2o = {.name = "h2o",
                                        .summary = "what all rows have attended to, and the most recent half",
                                        .paper = "arXiv 2306.14048",
                                        .parts = {.statistic = "sum",
                                                  .window = "0",
                                                  .rows = "all",
                                                  .pool = "none",
                                                  .recents = "50%",
                                                  .head_budget = "uniform",
                                                  .select = "topk",
                                                  .evict = "every:1"}};
