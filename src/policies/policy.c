/* policy.c - the defaults of parts. */
#include "policies/policy.h"

#include <stdio.h>
#include <string.h>

#include "policies/policy_impl.h"

const lh_policy_parts lh_policy_defaults = {.lag = "128",
                                            .proxies = "none",
                                            .proxies_at = "end",
                                            .window = "32",
                                            .compete_by = "scores",
                                            .fit = "none",
                                            .ridge = "0.1",
                                            .rows_at = "own",
                                            .gain = "off",
                                            .gain_floor = "off",
                                            .non_causal = "off",
                                            .value_prior = "off",
                                            .mean_floor = "off",
                                            .value_norms = "off",
                                            .group = "mean",
                                            .pool = "none",
                                            .pool_size = "7",
                                            .group_stage = "weight",
                                            .sinks = "0",
                                            .recents = "0",
                                            .values = "0",
                                            .head_budget = "uniform",
                                            .alpha = "0.5",
                                            .safeguard = "interp",
                                            .layer_budget = "uniform",
                                            .beta = "20",
                                            .select = "topk",
                                            .first_stage = "0.5",
                                            .std_share = "0.3",
                                            .random_share = "7/19",
                                            .draw = "softmax",
                                            .key_share = "0.5",
                                            .row_share = "0",
                                            .compat = "none",
                                            .set_per = "head",
                                            .evict = "never",
                                            .positions = "original"};

int lh_policy_attends(const lh_policy *policy)
{
    return policy->score.source == LH_SCORE_ATTENTION;
}

int lh_policy_observes(const lh_policy *policy)
{
    return lh_policy_attends(policy) && policy->score.statistic != LH_STAT_LAST;
}
