/* word_list.h - the words of the common parts of a policy, once each: X(word, meaning), with its number of the
 * enumeration in policy.h where there is one. '--policy NAME --help' prints the meaning. A word's index in its list is
 * its number. The words of '--statistic' and '--select' are methods (method_list.h). */
#ifndef LH_POLICIES_WORD_LIST_H
#define LH_POLICIES_WORD_LIST_H

/* X(name, list): every list, and the name of the array of its words. */
#define LH_POLICY_WORDS(X)                         \
    X(lh_policy_proxy_places, LH_PROXIES_AT_WORDS) \
    X(lh_policy_row_places, LH_ROWS_AT_WORDS)      \
    X(lh_policy_groups, LH_GROUP_WORDS)            \
    X(lh_policy_pools, LH_POOL_WORDS)              \
    X(lh_policy_over_heads, LH_HEADS_WORDS)        \
    X(lh_policy_over_layers, LH_LAYERS_WORDS)      \
    X(lh_policy_sets, LH_SET_WORDS)                \
    X(lh_policy_position_modes, LH_POSITION_WORDS)

#define LH_PROXIES_AT_WORDS(X)                                        \
    X("end", "Proxies are the end of the prompt.", LH_PROXIES_AT_END) \
    X("both-ends", "Half of the proxies are the beginning of the prompt, the others its end.", LH_PROXIES_AT_BOTH_ENDS)

#define LH_ROWS_AT_WORDS(X)                                                                                      \
    X("own", "Rows score from where they are.", LH_ROWS_AT_OWN)                                                  \
    X("after", "Rows score from positions after the prompt, and see all of it.", LH_ROWS_AT_AFTER)               \
    X("repeat", "The prompt follows itself once more: its new rows score, and are not kept.", LH_ROWS_AT_REPEAT) \
    X("text", "Questions of a file follow the prompt: their rows score, and are not kept.", LH_ROWS_AT_TEXT)

/* lh_group_kind of kernels/ops.h */
#define LH_GROUP_WORDS(X)                                            \
    X("mean", "The mean of the query heads that share a KV head.")   \
    X("max", "The maximum of the query heads that share a KV head.") \
    X("sum", "The sum of the query heads that share a KV head.")

/* lh_pool_kind of kernels/ops.h */
#define LH_POOL_WORDS(X)                           \
    X("none", "Scores are not pooled.")            \
    X("max", "The maximum score around an entry.") \
    X("avg", "The mean score around an entry.")

#define LH_HEADS_WORDS(X)                                                          \
    X("uniform", "Every head of a layer keeps the same number.", LH_HEADS_UNIFORM) \
    X("adaptive", "The heads of a layer compete.", LH_HEADS_ADAPTIVE)

#define LH_LAYERS_WORDS(X)                                                \
    X("uniform", "Every layer keeps the same number.", LH_LAYERS_UNIFORM) \
    X("pyramid", "Lower layers keep more.", LH_LAYERS_PYRAMID)            \
    X("adaptive", "The heads of all layers compete.", LH_LAYERS_ADAPTIVE) \
    X("learnt", "Every layer keeps the share that it had of the best entries of texts.", LH_LAYERS_LEARNT)

#define LH_SET_WORDS(X)                            \
    X("head", "Every head keeps its own entries.") \
    X("layer", "All heads of a layer keep the same entries.")

#define LH_POSITION_WORDS(X)                                             \
    X("original", "Entries keep their positions.", LH_POSITION_ORIGINAL) \
    X("slot", "Entries take the positions of their slots.", LH_POSITION_SLOT)

#endif
