#include "policies/policy.h"

const lh_policy_preset lh_policy_nacl = {
    .name = "nacl",
    .summary = "what the last percent of the prompt attends to, a part of it drawn by chance",
    .paper = "arXiv 2408.03675",
    .parts = {.statistic = "sum",
              .proxies = "1%",
              .pool = "none",
              .sinks = "256",
              .head_budget = "uniform",
              .select = "topk+sample",
              .random_share = "7/19",
              .evict = "every"}};
