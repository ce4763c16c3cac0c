#include "policies/policy.h"

const lh_policy_preset lh_policy_full = {.name = "full", .summary = "every entry is kept", .kind = LH_POLICY_BASELINE};
