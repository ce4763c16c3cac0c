#include "policies/policy.h"

const lh_policy_preset lh_policy_ada_pyramid = {.name = "ada-pyramid",
                                                .summary = "as ada-snapkv, with more entries for lower layers",
                                                .paper = "arXiv 2407.11550",
                                                .parts = {.statistic = "mean",
                                                          .window = "32",
                                                          .pool = "max",
                                                          .pool_size = "7",
                                                          .head_budget = "adaptive",
                                                          .alpha = "0.5",
                                                          .safeguard = "interp",
                                                          .layer_budget = "pyramid",
                                                          .beta = "20",
                                                          .select = "topk",
                                                          .evict = "never"}};
