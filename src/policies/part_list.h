/* part_list.h - the common parts of a policy, once each, in the order in which they are read: a part that decides
 * whether another is used comes first. Parts of a single method are in its file (method.h). LH_POLICY_PARTS(X):
 * X(member, option, type, words, argument, help) for each: member of lh_policy_parts; its option without the dashes;
 * type in the table of a command (base/options.h); its words (NULL: none); name of the value; its help text. */
#ifndef LH_POLICIES_PART_LIST_H
#define LH_POLICIES_PART_LIST_H

#define LH_POLICY_PARTS(X)                                                                                             \
    X(statistic, "statistic", LH_OPT_STR, lh_policy_statistics, NULL,                                                  \
      "Scores of entries: the attention that they receive, their position, their key, or random numbers.")             \
    X(proxies, "proxies", LH_OPT_STR, NULL, "P%|question|none",                                                        \
      "P% of the prompt, or the tokens of the question, score the entries, and are kept: at most a quarter of the "    \
      "budget.")                                                                                                       \
    X(proxies_at, "proxies-at", LH_OPT_STR, lh_policy_proxy_places, NULL,                                              \
      "Place of the proxies: the end of the prompt, or half of them at its beginning, which are then the sinks.")      \
    X(window, "window", LH_OPT_STR, NULL, "N",                                                                         \
      "Attention window: the last N rows of the prompt score the entries, and are kept.")                              \
    X(head_budget, "head-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_heads, NULL,                                     \
      "Budgets of heads: uniform, adaptive (the heads of a layer compete, AdaKV), or by the weights in FILE, a CSV "   \
      "with the first line 'layer,head,weight'.")                                                                      \
    X(rows_at, "rows-at", LH_OPT_STR, NULL, "own|after|repeat[:N]|text:FILE",                                          \
      "Place from which rows score: their own, or positions after the prompt, from where they see all of it. repeat: " \
      "the prompt once more (KVzip), read after itself and not kept; repeat:N: N tokens at a time, which see only "    \
      "sinks, the entries that they repeat and themselves. text:FILE: questions known beforehand, a line each, which " \
      "follow the prompt one by one and are not kept.")                                                                \
    X(rows, "rows", LH_OPT_STR, NULL, "all|last:N|P%|sample:N",                                                        \
      "Rows that score; by default those of the window, after the prompt 512 spread over it; or, where no rows "       \
      "score, those that losses and a fit look from, 64 to 256 at most, fewer the longer the prompt.")                 \
    X(group, "group", LH_OPT_STR, lh_policy_groups, NULL, "Reduction over the query heads that share a KV head.")      \
    X(pool, "pool", LH_OPT_STR, lh_policy_pools, NULL, "Pooling of scores along positions.")                           \
    X(pool_size, "pool-size", LH_OPT_STR, NULL, "N", "Kernel size of the pooling, odd.")                               \
    X(sinks, "sinks", LH_OPT_STR, NULL, "N|P%",                                                                        \
      "Attention sinks: first entries that are always kept, as a number or a share of the budget; at most half as "    \
      "many as there are proxies.")                                                                                    \
    X(recents, "recents", LH_OPT_STR, NULL, "N|P%",                                                                    \
      "Last entries that are always kept, as a number or a share of the budget.")                                      \
    X(select, "select", LH_OPT_STR, lh_policy_selections, NULL,                                                        \
      "Selection: by score; or a share of it by score and value (CriticalKV), by the deviation of attention (RoCo), "  \
      "by chance (NaCl), or by the directions of keys.")                                                               \
    X(set_per, "set-per", LH_OPT_STR, lh_policy_sets, NULL,                                                            \
      "Every head keeps its own entries, or all heads of a layer the same ones.")                                      \
    X(evict, "evict", LH_OPT_STR, NULL, "never|every:M|block:N",                                                       \
      "When to evict after the prompt: never, or at every M-th token, down to the budget; block:N: before each N "     \
      "tokens of the prompt ('block:N,every:M': both).")                                                               \
    X(layer_budget, "layer-budget", LH_OPT_WORD_OR_FILE, lh_policy_over_layers, NULL,                                  \
      "Budgets of layers: uniform, more for lower layers (PyramidKV), by competition of the heads of all layers, by "  \
      "shares that 'longhaul learn' found, or by the weights in FILE, a CSV with the first line 'layer,weight', or "   \
      "of heads, whose sums count.")                                                                                   \
    X(positions, "positions", LH_OPT_STR, lh_policy_position_modes, NULL,                                              \
      "Positions of kept entries: the original ones, or those of their slots (StreamingLLM).")

#endif
