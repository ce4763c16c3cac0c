#include "policies/policy.h"

const lh_policy_preset lh_policy_scissorhands = {
    .name = "scissorhands",
    .summary = "what often got more attention than the mean, and the most recent half",
    .paper = "arXiv 2305.17118",
    .parts = {.statistic = "count",
              .window = "0",
              .rows = "last:400",
              .pool = "none",
              .recents = "50%",
              .head_budget = "uniform",
              .select = "topk",
              .evict = "every:1"}};
