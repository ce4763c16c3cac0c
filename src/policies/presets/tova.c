#include "policies/policy.h"

const lh_policy_preset lh_policy_tova = {
    .name = "tova",
    .summary = "what the newest row attends to, the same entries for all heads of a layer",
    .paper = "arXiv 2401.06104",
    .parts = {.statistic = "last",
              .group = "mean",
              .pool = "none",
              .head_budget = "uniform",
              .select = "topk",
              .set_per = "layer",
              .evict = "every:1"}};
