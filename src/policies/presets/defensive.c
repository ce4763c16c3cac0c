#include "policies/policy.h"

const lh_policy_preset lh_policy_defensive = {
    .name = "defensive",
    .summary = "the largest attention of any row, never below the mean, and the values",
    .paper = "arXiv 2510.13334",
    .parts = {.statistic = "max",
              .window = "32",
              .mean_floor = "on",
              .value_norms = "on",
              .pool = "avg",
              .pool_size = "5",
              .head_budget = "adaptive",
              .alpha = "0",
              .safeguard = "floor",
              .select = "topk",
              .evict = "never"}};
