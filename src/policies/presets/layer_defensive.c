#include "policies/policy.h"

const lh_policy_preset lh_policy_layer_defensive = {.name = "layer-defensive",
                                                    .summary = "as defensive, over the heads of all layers",
                                                    .paper = "arXiv 2510.13334",
                                                    .parts = {.statistic = "max",
                                                              .window = "32",
                                                              .mean_floor = "on",
                                                              .value_norms = "on",
                                                              .pool = "avg",
                                                              .pool_size = "5",
                                                              .head_budget = "adaptive",
                                                              .alpha = "0",
                                                              .safeguard = "floor",
                                                              .layer_budget = "adaptive",
                                                              .select = "topk",
                                                              .evict = "never"}};
