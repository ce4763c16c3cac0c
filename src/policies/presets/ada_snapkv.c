#include "policies/policy.h"

const lh_policy_preset lh_policy_ada_snapkv = {
    .name = "ada-snapkv",
    .summary = "AdaKV: as snapkv, with a layer's budget shared out by the heads' scores",
    .alias = "adakv",
    .paper = "arXiv 2407.11550",
    .parts = {.statistic = "mean",
              .window = "32",
              .pool = "max",
              .pool_size = "7",
              .head_budget = "adaptive",
              .alpha = "0.5",
              .safeguard = "interp",
              .select = "topk",
              .evict = "never"}};
