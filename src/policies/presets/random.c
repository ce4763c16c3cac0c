#include "policies/policy.h"

const lh_policy_preset lh_policy_random = {
    .name = "random",
    .summary = "entries drawn by chance, by each head alone",
    .kind = LH_POLICY_BASELINE,
    .parts = {.statistic = "random", .head_budget = "uniform", .select = "topk", .evict = "every:1"}};
