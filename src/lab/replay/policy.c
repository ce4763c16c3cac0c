#include "lab/replay/replay_impl.h"

/* A policy as a replay runs it: entries are judged as they were recorded, so that none is fitted. */
lh_policy lh_replay_policy(const lh_policy *policy)
{
    lh_policy replayed = *policy;
    replayed.fitting = (lh_policy_fitting){.kind = LH_FIT_NONE};
    return replayed;
}
