#include "policies/policy.h"

const lh_policy_preset lh_policy_caote = {.name = "caote",
                                          .summary = "what the outputs of the last rows would change without",
                                          .paper = "arXiv 2504.14051",
                                          .alias = "dropkv",
                                          .parts = {.statistic = "output-error",
                                                    .window = "32",
                                                    .pool = "max",
                                                    .pool_size = "7",
                                                    .head_budget = "uniform",
                                                    .select = "topk",
                                                    .evict = "never"}};
