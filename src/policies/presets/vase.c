#include "policies/policy.h"

const lh_policy_preset lh_policy_vase = {
    .name = "vase",
    .summary = "the largest values, and a sample of the others by the attention of the last rows",
    .paper = "arXiv 2606.03928",
    .parts = {.statistic = "mean",
              .window = "64",
              .pool = "avg",
              .pool_size = "5",
              .sinks = "4",
              .values = "25%",
              .head_budget = "uniform",
              .select = "topk+sample",
              .random_share = "1",
              .draw = "score",
              .evict = "every"}};
