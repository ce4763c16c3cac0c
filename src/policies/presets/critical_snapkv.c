#include "policies/policy.h"

const lh_policy_preset lh_policy_critical_snapkv = {
    .name = "critical-snapkv",
    .summary = "CriticalKV: as snapkv, half of it chosen by what the values add to the output",
    .alias = "criticalkv",
    .paper = "arXiv 2502.03805",
    .parts = {.statistic = "mean",
              .window = "32",
              .pool = "max",
              .pool_size = "7",
              .head_budget = "uniform",
              .select = "two-stage",
              .first_stage = "0.5",
              .evict = "never"}};
