/* part_list.h - the parts of a policy, once each, in the order in which they are read: a part that decides whether
 * another is used comes first. LH_POLICY_PARTS(X): X(member, option, type, words, argument, help) for each: member of
 * lh_policy_parts; its option without the dashes; type in the table of a command (base/options.h); its words (NULL:
 * none); name of the value; its help text. */
#ifndef LH_POLICIES_PART_LIST_H
#define LH_POLICIES_PART_LIST_H

#define LH_POLICY_PARTS(X)                                                                                            \
    X(statistic, "statistic", LH_OPT_STR, lh_policy_statistics, NULL,                                                 \
      "Scores of entries: the attention that they receive, their position, their key, or random numbers.")            \
    X(lag, "lag", LH_OPT_STR, NULL, "N",                                                                              \
      "Entries of a part of the text, which is compared with the next part (LagKV).")                                 \
    X(proxies, "proxies", LH_OPT_STR, NULL, "P%|question|none",                                                       \
      "P% of the prompt, or the tokens of the question, score the entries, and are kept: at most a quarter of the "   \
      "budget.")                                                                                                      \
    X(proxies_at, "proxies-at", LH_OPT_STR, lh_policy_proxy_places, NULL,                                             \
      "Place of the proxies: the end of the prompt, or half of them at its beginning, which are then the sinks.")     \
    X(window, "window", LH_OPT_STR, NULL, "N",                                                                        \
      "Attention window: the last N rows of the prompt score the entries, and are kept.")                             \
    X(head_budget, "head-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_heads, NULL,                                    \
      "Budgets of heads: uniform, adaptive (the heads of a layer compete, AdaKV), or by the weights in FILE, a CSV "  \
      "with the first line 'layer,head,weight'.")                                                                     \
    X(compete_by, "compete-by", LH_OPT_STR, lh_policy_competitions, NULL,                                             \
      "What heads compete by: the scores of their entries, or what their output loses without them.")                 \
    X(fit, "fit", LH_OPT_STR, lh_policy_fits, NULL,                                                                   \
      "What of the kept entries is fitted, so that rows after the prompt see in them what they saw in all.")          \
    X(ridge, "ridge", LH_OPT_STR, NULL, "X", "Strength that holds fitted values near the old ones, from 0 to 1.")     \
    X(rows_at, "rows-at", LH_OPT_STR, lh_policy_row_places, NULL,                                                     \
      "Place from which rows score: their own, or positions after the prompt, from where they see all of it.")        \
    X(rows, "rows", LH_OPT_STR, NULL, "all|last:N|P%|sample:N",                                                       \
      "Rows that score; by default those of the window, after the prompt 512 spread over it; or, where no rows "      \
      "score, those that losses and a fit look from, 64 to 256 at most, fewer the longer the prompt.")                \
    X(gain, "gain", LH_OPT_SWITCH, lh_policy_switch, NULL,                                                            \
      "Sharpen the attention that scores, more so for texts much longer than the budget (AhaKV).")                    \
    X(gain_floor, "gain-floor", LH_OPT_SWITCH, lh_policy_switch, NULL, "A gain of at least 1, which never flattens.") \
    X(non_causal, "non-causal", LH_OPT_SWITCH, lh_policy_switch, NULL, "Rows that score see later rows, too.")        \
    X(value_prior, "value-prior", LH_OPT_SWITCH, lh_policy_switch, NULL,                                              \
      "Multiply scores by the squared norm of the values, smoothed (AhaKV).")                                         \
    X(mean_floor, "mean-floor", LH_OPT_SWITCH, lh_policy_switch, NULL,                                                \
      "Raise scores below the mean of their head to it (DefensiveKV).")                                               \
    X(value_norms, "value-norms", LH_OPT_SWITCH, lh_policy_switch, NULL,                                              \
      "Multiply scores by what the value adds to the output, as a share of its head's (DefensiveKV).")                \
    X(group, "group", LH_OPT_STR, lh_policy_groups, NULL, "Reduction over the query heads that share a KV head.")     \
    X(pool, "pool", LH_OPT_STR, lh_policy_pools, NULL, "Pooling of scores along positions.")                          \
    X(pool_size, "pool-size", LH_OPT_STR, NULL, "N", "Kernel size of the pooling, odd.")                              \
    X(group_stage, "group-stage", LH_OPT_STR, lh_policy_group_stages, NULL,                                           \
      "Join query heads before pooling (weight) or after it (score).")                                                \
    X(sinks, "sinks", LH_OPT_STR, NULL, "N|P%",                                                                       \
      "Attention sinks: first entries that are always kept, as a number or a share of the budget; at most half as "   \
      "many as there are proxies.")                                                                                   \
    X(recents, "recents", LH_OPT_STR, NULL, "N|P%",                                                                   \
      "Last entries that are always kept, as a number or a share of the budget.")                                     \
    X(values, "values", LH_OPT_STR, NULL, "N|P%",                                                                     \
      "Entries of the largest values that are always kept, as a number or a share of the budget (VaSE).")             \
    X(alpha, "alpha", LH_OPT_STR, NULL, "X",                                                                          \
      "Share of the budget that every head keeps whatever its scores are, when heads compete.")                       \
    X(safeguard, "safeguard", LH_OPT_STR, lh_policy_safeguards, NULL,                                                 \
      "How alpha is given: mixed into the counts of entries, or first.")                                              \
    X(select, "select", LH_OPT_STR, lh_policy_selections, NULL,                                                       \
      "Selection: by score; or a share of it by score and value (CriticalKV), by the deviation of attention (RoCo), " \
      "by chance (NaCl), or by the directions of keys.")                                                              \
    X(first_stage, "first-stage", LH_OPT_STR, NULL, "X", "Share that two-stage chooses by score alone.")              \
    X(std_share, "std-share", LH_OPT_STR, NULL, "X", "Share of the budget that std-scope chooses by deviation.")      \
    X(random_share, "random-share", LH_OPT_STR, NULL, "X", "Share that topk+sample draws, such as 0.3 or 7/19.")      \
    X(draw, "draw", LH_OPT_STR, lh_policy_draws, NULL, "Probabilities by which topk+sample draws.")                   \
    X(key_share, "key-share", LH_OPT_STR, NULL, "X", "Share that topk+keys chooses by keys.")                         \
    X(row_share, "row-share", LH_OPT_STR, NULL, "X",                                                                  \
      "Share that topk+keys chooses by the attention of rows after the prompt; scores and keys share the rest.")      \
    X(set_per, "set-per", LH_OPT_STR, lh_policy_sets, NULL,                                                           \
      "Every head keeps its own entries, or all heads of a layer the same ones.")                                     \
    X(evict, "evict", LH_OPT_STR, NULL, "never|every:M|block:N",                                                      \
      "When to evict after the prompt: never, or at every M-th token, down to the budget; block:N: before each N "    \
      "tokens of the prompt ('block:N,every:M': both).")                                                              \
    X(layer_budget, "layer-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_layers, NULL,                                 \
      "Budgets of layers: uniform, more for lower layers (PyramidKV), by competition of the heads of all layers, or " \
      "by the weights in FILE, a CSV with the first line 'layer,weight', or of heads, whose sums count.")             \
    X(beta, "beta", LH_OPT_STR, NULL, "N", "Steepness of the pyramid.")                                               \
    X(compat, "compat", LH_OPT_STR, lh_policy_compats, NULL, NULL)                                                    \
    X(positions, "positions", LH_OPT_STR, lh_policy_position_modes, NULL,                                             \
      "Positions of kept entries: the original ones, or those of their slots (StreamingLLM).")

#endif
