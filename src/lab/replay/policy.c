#include "lab/replay/replay_impl.h"

/* The policy of a replay: recorded entries are evaluated without a fit. */
lh_policy lh_replay_policy(const lh_policy *policy)
{
    lh_policy replayed = *policy;
    replayed.fitting = (lh_policy_fitting){.kind = LH_FIT_NONE};
    return replayed;
}
