/* part_list.h - the parts of a policy, once, in the order in which they are read: what decides whether another is used
 * comes first. LH_POLICY_PARTS(X): X(member, option, type, words, argument, help) for each: member of lh_policy_parts;
 * its option without the dashes; type in the table of a command (base/options.h); its words (NULL: none); what the
 * value is called; a sentence or two. */
#ifndef LH_POLICIES_PART_LIST_H
#define LH_POLICIES_PART_LIST_H

#define LH_POLICY_PARTS(X)                                                                                             \
    X(statistic, "statistic", LH_OPT_STR, lh_policy_statistics, NULL,                                                  \
      "What scores an entry: the attention that it receives, its position, its key, or chance.")                       \
    X(proxies, "proxies", LH_OPT_STR, NULL, "P%|question|none",                                                        \
      "P% of the prompt, or the tokens of the question, score the entries, and are kept: a quarter of the budget at "  \
      "most.")                                                                                                         \
    X(proxies_at, "proxies-at", LH_OPT_STR, lh_policy_proxy_places, NULL,                                              \
      "P% of the prompt at its end, or half of them at its beginning; they are the sinks then.")                       \
    X(window, "window", LH_OPT_STR, NULL, "N", "The last N rows score the entries, and are kept.")                     \
    X(rows, "rows", LH_OPT_STR, NULL, "all|last:N|P%", "Rows that score; without it those of the window.")             \
    X(gain, "gain", LH_OPT_SWITCH, lh_policy_switch, NULL,                                                             \
      "Sharpen the attention that scores, the more the longer the text is for the budget (AhaKV).")                    \
    X(gain_floor, "gain-floor", LH_OPT_SWITCH, lh_policy_switch, NULL, "Never flatten it: a gain of at least 1.")      \
    X(non_causal, "non-causal", LH_OPT_SWITCH, lh_policy_switch, NULL,                                                 \
      "Rows that score see each other, later ones too.")                                                               \
    X(value_prior, "value-prior", LH_OPT_SWITCH, lh_policy_switch, NULL,                                               \
      "Multiply scores by the squared norm of the values, smoothed (AhaKV).")                                          \
    X(group, "group", LH_OPT_STR, lh_policy_groups, NULL, "How the query heads that share a KV head are joined.")      \
    X(pool, "pool", LH_OPT_STR, lh_policy_pools, NULL, "Pool scores along positions.")                                 \
    X(pool_size, "pool-size", LH_OPT_STR, NULL, "N", "Entries in a pool, odd.")                                        \
    X(group_stage, "group-stage", LH_OPT_STR, lh_policy_group_stages, NULL,                                            \
      "Join query heads before pooling (weight) or after it (score).")                                                 \
    X(sinks, "sinks", LH_OPT_STR, NULL, "N",                                                                           \
      "First entries that are always kept; beside proxies at most half as many.")                                      \
    X(recents, "recents", LH_OPT_STR, NULL, "N|P%", "Last entries that are always kept; or a share of the budget.")    \
    X(head_budget, "head-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_heads, NULL,                                     \
      "Every head keeps as much, or the heads of a layer compete (AdaKV); or each keeps its part of the layer's "      \
      "budget "                                                                                                        \
      "by the weights in FILE, a CSV with the first line 'layer,head,weight'.")                                        \
    X(alpha, "alpha", LH_OPT_STR, NULL, "X", "Share of the budget that every head is sure of, when heads compete.")    \
    X(safeguard, "safeguard", LH_OPT_STR, lh_policy_safeguards, NULL,                                                  \
      "How that share is given: mixed into the counts, or first.")                                                     \
    X(layer_budget, "layer-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_layers, NULL,                                  \
      "Every layer keeps as much, or lower layers keep more (PyramidKV); or each keeps "     \
      "its part by the weights in FILE, a CSV with the first line 'layer,weight'.")                                    \
    X(beta, "beta", LH_OPT_STR, NULL, "N", "How steep the pyramid is.")                                                \
    X(select, "select", LH_OPT_STR, lh_policy_selections, NULL,                                                        \
      "How entries are chosen: by score; a part by score and a part by score and value (CriticalKV); a part by the "   \
      "deviation of their attention (RoCo); a part by chance (NaCl).")                                                 \
    X(first_stage, "first-stage", LH_OPT_STR, NULL, "X", "Share that is chosen by score alone, of two-stage.")         \
    X(std_share, "std-share", LH_OPT_STR, NULL, "X", "Share of the budget that is chosen by deviation, of std-scope.") \
    X(random_share, "random-share", LH_OPT_STR, NULL, "X", "Share that is drawn, of topk+sample, as 0.3 or 7/19.")     \
    X(compat, "compat", LH_OPT_STR, lh_policy_compats, NULL, NULL)                                                     \
    X(set_per, "set-per", LH_OPT_STR, lh_policy_sets, NULL,                                                            \
      "Every head keeps entries of its own, or all heads of a layer the same ones.")                                   \
    X(evict, "evict", LH_OPT_STR, NULL, "never|every:M|block:N",                                                       \
      "While decoding: never, or down to the budget at every M-th token; block:N: before each N tokens of the "        \
      "prompt, too ('block:N,every:M': both).")                                                                        \
    X(positions, "positions", LH_OPT_STR, lh_policy_position_modes, NULL,                                              \
      "Kept entries keep their positions, or take those of their slots (StreamingLLM).")

#endif
