#include "policies/policy.h"

/* What tools/choose_default.py found to measure best (docs/results.md). */
const lh_policy_preset lh_policy_longhaul = {
    .name = "longhaul",
    .summary = "as ada-snapkv, with a short window and pools that keep sentences whole",
    .kind = LH_POLICY_OWN,
    .parts = {.statistic = "mean",
              .window = "16",
              .pool = "max",
              .pool_size = "31",
              .sinks = "4",
              .head_budget = "adaptive",
              .alpha = "0.2",
              .safeguard = "interp",
              .select = "topk",
              .evict = "never"}};
