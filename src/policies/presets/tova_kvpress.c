#include "policies/policy.h"

const lh_policy_preset lh_policy_tova_kvpress = {.name = "tova@kvpress",
                                                 .summary =
                                                     "TOVAPress of kvpress 0.5.5: tova that keeps the last token",
                                                 .paper = "arXiv 2401.06104",
                                                 .kind = LH_POLICY_COMPATIBLE,
                                                 .parts = {.statistic = "last",
                                                           .group = "mean",
                                                           .pool = "none",
                                                           .recents = "1",
                                                           .head_budget = "uniform",
                                                           .select = "topk",
                                                           .set_per = "layer",
                                                           .evict = "never"}};
