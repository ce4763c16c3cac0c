/* source_list.h - the sources of scores: LH_SOURCE(kind, name) for each, where LH_SCORE_<kind> is the word of a policy
 * (policies/policy.h) and lh_source_<name> its table, in source_<name>.c. */
LH_SOURCE(POSITION, position)
LH_SOURCE(ATTENTION, window)
LH_SOURCE(RANDOM, random)
LH_SOURCE(KEY_NORM, key_norm)
LH_SOURCE(KEY_DIFFERENCE, key_difference)
LH_SOURCE(EXPECTED, expected)
