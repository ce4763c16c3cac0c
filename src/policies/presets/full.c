#include "policies/policy.h"

const lh_policy lh_policy_full = {.name = "full", .summary = "every entry is kept", .kind = LH_POLICY_BASELINE};
