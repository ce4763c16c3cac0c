#include "policies/policy.h"

const lh_policy_preset lh_policy_ahakv = {
    .name = "ahakv",
    .summary = "attention sharpened with the length of the text, times the size of the values",
    .paper = "arXiv 2506.03762",
    .parts = {.statistic = "sum",
              .window = "0",
              .rows = "last:32",
              .gain = "on",
              .value_prior = "on",
              .pool = "none",
              .recents = "32",
              .head_budget = "uniform",
              .select = "topk",
              .evict = "every:1"}};
