/* word_list.h - the words of the parts of a policy, once each, with what '--policy NAME --help' says of them. A list
 * makes the table of its words and that of their meanings (words.c), and where it names numbers their enumeration
 * (policy.h): a word's place in its list is its number. X(word, meaning), X(number, word, meaning), and for statistics
 * X(word, source, statistic, meaning). */
#ifndef LH_POLICIES_WORD_LIST_H
#define LH_POLICIES_WORD_LIST_H

#define LH_STATISTIC_WORDS(X)                                                                                  \
    X("sum", LH_SCORE_ATTENTION, LH_STAT_SUM, "The attention that an entry receives, added up.")               \
    X("mean", LH_SCORE_ATTENTION, LH_STAT_MEAN, "The attention that an entry receives, a mean over the rows.") \
    X("mas", LH_SCORE_ATTENTION, LH_STAT_MAS,                                                                  \
      "The attention that an entry receives, a mean over the rows that could see it.")                         \
    X("count", LH_SCORE_ATTENTION, LH_STAT_COUNT,                                                              \
      "The number of rows that give an entry more than their mean weight.")                                    \
    X("last", LH_SCORE_ATTENTION, LH_STAT_LAST, "The attention of the last row alone.")                        \
    X("position", LH_SCORE_POSITION, LH_STAT_SUM, "The later the better.")                                     \
    X("random", LH_SCORE_RANDOM, LH_STAT_SUM, "Chance.")                                                       \
    X("key-norm", LH_SCORE_KEY_NORM, LH_STAT_SUM, "Keys of small norm first.")                                 \
    X("key-difference", LH_SCORE_KEY_DIFFERENCE, LH_STAT_SUM, "Keys that differ from the mean key first.")     \
    X("expected", LH_SCORE_EXPECTED, LH_STAT_SUM, "The attention that later rows are expected to give.")

#define LH_PROXIES_AT_WORDS(X)                                        \
    X(LH_PROXIES_AT_END, "end", "Proxies are the end of the prompt.") \
    X(LH_PROXIES_AT_BOTH_ENDS, "both-ends", "Half of the proxies are the beginning of the prompt, the others its end.")

#define LH_GROUP_WORDS(X)                                            \
    X("mean", "The mean of the query heads that share a KV head.")   \
    X("max", "The largest of the query heads that share a KV head.") \
    X("sum", "The sum of the query heads that share a KV head.")

#define LH_POOL_WORDS(X)                           \
    X("none", "Scores as they are.")               \
    X("max", "The largest score around an entry.") \
    X("avg", "The mean score around an entry.")

#define LH_GROUP_STAGE_WORDS(X)                           \
    X("weight", "Query heads are joined before pooling.") \
    X("score", "Query heads are joined after pooling.")

#define LH_HEADS_WORDS(X)                                                          \
    X(LH_HEADS_UNIFORM, "uniform", "Every head of a layer keeps the same number.") \
    X(LH_HEADS_ADAPTIVE, "adaptive", "The heads of a layer compete.")

#define LH_SAFEGUARD_WORDS(X)                                                                            \
    X(LH_SAFEGUARD_INTERP, "interp", "The share alpha is mixed into the counts that competition gives.") \
    X(LH_SAFEGUARD_FLOOR, "floor", "The share alpha is given first, the rest by competition.")

#define LH_LAYERS_WORDS(X)                                                \
    X(LH_LAYERS_UNIFORM, "uniform", "Every layer keeps the same number.") \
    X(LH_LAYERS_PYRAMID, "pyramid", "Lower layers keep more.")            \
    X(LH_LAYERS_ADAPTIVE, "adaptive", "The heads of all layers compete.")

#define LH_SELECT_WORDS(X)                                                                                \
    X(LH_SELECT_TOPK, "topk", "The best scores.")                                                         \
    X(LH_SELECT_TWO_STAGE, "two-stage",                                                                   \
      "The best scores, then the best of score times what the value adds to the output.")                 \
    X(LH_SELECT_STD_SCOPE, "std-scope", "The entries whose attention varies most, then the best scores.") \
    X(LH_SELECT_TOPK_SAMPLE, "topk+sample", "The best scores, then entries that are drawn by their scores.")

#define LH_COMPAT_WORDS(X)                              \
    X(LH_COMPAT_NONE, "none", "As the papers have it.") \
    X(LH_COMPAT_KVPRESS, "kvpress",                     \
      "As kvpress 0.5.5: alpha and the first stage are shares of the whole budget, and pyramids are rounded.")

#define LH_SET_WORDS(X)                            \
    X("head", "Every head keeps its own entries.") \
    X("layer", "All heads of a layer keep the same entries.")

#define LH_POSITION_WORDS(X)                                             \
    X(LH_POSITION_ORIGINAL, "original", "Entries keep their positions.") \
    X(LH_POSITION_SLOT, "slot", "Entries take the positions of their slots.")

#endif
