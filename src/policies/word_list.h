/* word_list.h - the words of the parts of a policy, once each: X(word, meaning), with its number of the enumeration in
 * policy.h where there is one, or source and statistic. '--policy NAME --help' prints the meaning. A word's index in
 * its list is its number. */
#ifndef LH_POLICIES_WORD_LIST_H
#define LH_POLICIES_WORD_LIST_H

/* X(name, list): every list, and the name of the array of its words. */
#define LH_POLICY_WORDS(X)                          \
    X(lh_policy_statistics, LH_STATISTIC_WORDS)     \
    X(lh_policy_proxy_places, LH_PROXIES_AT_WORDS)  \
    X(lh_policy_competitions, LH_COMPETE_WORDS)     \
    X(lh_policy_fits, LH_FIT_WORDS)                 \
    X(lh_policy_row_places, LH_ROWS_AT_WORDS)       \
    X(lh_policy_groups, LH_GROUP_WORDS)             \
    X(lh_policy_pools, LH_POOL_WORDS)               \
    X(lh_policy_group_stages, LH_GROUP_STAGE_WORDS) \
    X(lh_policy_over_heads, LH_HEADS_WORDS)         \
    X(lh_policy_safeguards, LH_SAFEGUARD_WORDS)     \
    X(lh_policy_over_layers, LH_LAYERS_WORDS)       \
    X(lh_policy_selections, LH_SELECT_WORDS)        \
    X(lh_policy_draws, LH_DRAW_WORDS)               \
    X(lh_policy_compats, LH_COMPAT_WORDS)           \
    X(lh_policy_sets, LH_SET_WORDS)                 \
    X(lh_policy_position_modes, LH_POSITION_WORDS)

/* Sources of scores other than attention, with the name of each: implemented in src/evict/source_<name>.c. The
 * enumeration lh_score_source and the table of sources are made of these rows. */
#define LH_SOURCE_WORDS(X)                                                                                           \
    X("position", "The later the better.", LH_SCORE_POSITION, LH_STAT_SUM, position)                                 \
    X("random", "Chance.", LH_SCORE_RANDOM, LH_STAT_SUM, random)                                                     \
    X("key-norm", "Keys of small norm first.", LH_SCORE_KEY_NORM, LH_STAT_SUM, key_norm)                             \
    X("key-difference", "Keys that differ from the mean key first.", LH_SCORE_KEY_DIFFERENCE, LH_STAT_SUM,           \
      key_difference)                                                                                                \
    X("lag", "Entries whose keys and values deviate most, on the scale of the next part of the text.", LH_SCORE_LAG, \
      LH_STAT_SUM, lag)                                                                                              \
    X("leverage", "Keys that the others do not span first: their leverage scores.", LH_SCORE_LEVERAGE, LH_STAT_SUM,  \
      leverage)                                                                                                      \
    X("expected", "The attention that later rows are expected to give.", LH_SCORE_EXPECTED, LH_STAT_SUM, expected)

#define LH_STATISTIC_WORDS(X)                                                                                     \
    X("sum", "The attention that an entry receives, summed over the rows.", LH_SCORE_ATTENTION, LH_STAT_SUM)      \
    X("mean", "The attention that an entry receives, a mean over the rows.", LH_SCORE_ATTENTION, LH_STAT_MEAN)    \
    X("mas", "The attention that an entry receives, a mean over the rows that could see it.", LH_SCORE_ATTENTION, \
      LH_STAT_MAS)                                                                                                \
    X("count", "The number of rows that give an entry more than their mean weight.", LH_SCORE_ATTENTION,          \
      LH_STAT_COUNT)                                                                                              \
    X("rms", "The attention that an entry receives, as the root of its mean square over rows and query heads.",   \
      LH_SCORE_ATTENTION, LH_STAT_RMS)                                                                            \
    X("max", "The largest attention that an entry receives, of all rows and query heads.", LH_SCORE_ATTENTION,    \
      LH_STAT_MAX)                                                                                                \
    X("output-error", "The squared error of the rows' outputs without an entry.", LH_SCORE_ATTENTION,             \
      LH_STAT_OUTPUT_ERROR)                                                                                       \
    X("last", "The attention of the last row alone.", LH_SCORE_ATTENTION, LH_STAT_LAST)                           \
    LH_SOURCE_WORDS(X)

#define LH_PROXIES_AT_WORDS(X)                                        \
    X("end", "Proxies are the end of the prompt.", LH_PROXIES_AT_END) \
    X("both-ends", "Half of the proxies are the beginning of the prompt, the others its end.", LH_PROXIES_AT_BOTH_ENDS)

#define LH_COMPETE_WORDS(X)                                                                                    \
    X("scores", "Heads compete by the scores of their entries (AdaKV).", LH_COMPETE_BY_SCORES)                 \
    X("losses", "Heads compete by what their output loses without an entry, as rows after the prompt see it.", \
      LH_COMPETE_BY_LOSSES)

#define LH_FIT_WORDS(X)                                                                                            \
    X("none", "Entries stay what they were.", LH_FIT_NONE)                                                         \
    X("bias", "A bias of each kept entry, which stands for the attention that went to evicted ones.", LH_FIT_BIAS) \
    X("values", "The values, so that outputs stay what they were.", LH_FIT_VALUES)                                 \
    X("both", "A bias of each kept entry for the attention that went to evicted ones, then the values.", LH_FIT_BOTH)

#define LH_ROWS_AT_WORDS(X)                                     \
    X("own", "Rows score from where they are.", LH_ROWS_AT_OWN) \
    X("after", "Rows score from positions after the prompt, and see all of it.", LH_ROWS_AT_AFTER)

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

#define LH_GROUP_STAGE_WORDS(X)                           \
    X("weight", "Query heads are joined before pooling.") \
    X("score", "Query heads are joined after pooling.")

#define LH_HEADS_WORDS(X)                                                          \
    X("uniform", "Every head of a layer keeps the same number.", LH_HEADS_UNIFORM) \
    X("adaptive", "The heads of a layer compete.", LH_HEADS_ADAPTIVE)

#define LH_SAFEGUARD_WORDS(X)                                                                            \
    X("interp", "The share alpha is mixed into the counts that competition gives.", LH_SAFEGUARD_INTERP) \
    X("floor", "The share alpha is given first, the rest by competition.", LH_SAFEGUARD_FLOOR)

#define LH_LAYERS_WORDS(X)                                                \
    X("uniform", "Every layer keeps the same number.", LH_LAYERS_UNIFORM) \
    X("pyramid", "Lower layers keep more.", LH_LAYERS_PYRAMID)            \
    X("adaptive", "The heads of all layers compete.", LH_LAYERS_ADAPTIVE)

#define LH_SELECT_WORDS(X)                                                                                    \
    X("topk", "The best scores.", LH_SELECT_TOPK)                                                             \
    X("two-stage", "The best scores, then the best of score times what the value adds to the output.",        \
      LH_SELECT_TWO_STAGE)                                                                                    \
    X("std-scope", "The entries of the largest deviation, then the best scores.", LH_SELECT_STD_SCOPE)        \
    X("topk+sample", "The best scores, then entries that are drawn by their scores.", LH_SELECT_TOPK_SAMPLE)  \
    X("topk+keys", "By turns the best scores and the keys that differ most from the mean key of their head.", \
      LH_SELECT_TOPK_KEYS)

#define LH_DRAW_WORDS(X)                                                           \
    X("softmax", "Drawn by the softmax of the scores (NaCl).", LH_DRAW_BY_SOFTMAX) \
    X("score", "Drawn in proportion to the scores (VaSE).", LH_DRAW_BY_SCORE)

#define LH_COMPAT_WORDS(X)                                                                                     \
    X("none", "As in the papers.", LH_COMPAT_NONE)                                                             \
    X("kvpress",                                                                                               \
      "As kvpress 0.5.5: alpha and the first stage are shares of the whole budget, and pyramids are rounded.", \
      LH_COMPAT_KVPRESS)

#define LH_SET_WORDS(X)                            \
    X("head", "Every head keeps its own entries.") \
    X("layer", "All heads of a layer keep the same entries.")

#define LH_POSITION_WORDS(X)                                             \
    X("original", "Entries keep their positions.", LH_POSITION_ORIGINAL) \
    X("slot", "Entries take the positions of their slots.", LH_POSITION_SLOT)

#endif
