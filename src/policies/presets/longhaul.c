#include "policies/policy.h"

/* What measures best where the question is in the prompt (docs/results.md): what one row of a question asks for is not
 * lost in a mean, and what is kept of a layer depends on all others. */
const lh_policy_preset lh_policy_longhaul = {
    .name = "longhaul",
    .summary = "the largest attention of the last rows, in pools that keep sentences whole; all heads compete",
    .kind = LH_POLICY_OWN,
    .parts = {.statistic = "max",
              .rows = "last:64",
              .window = "16",
              .pool = "max",
              .pool_size = "31",
              .sinks = "4",
              .head_budget = "adaptive",
              .alpha = "0.2",
              .safeguard = "floor",
              .layer_budget = "adaptive",
              .select = "topk",
              .evict = "never"}};
