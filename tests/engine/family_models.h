/* family_models.h - one tiny model of random weights of every shape that the families have: biases, norms of queries
 * and keys, soft caps, layers that slide, two rotary embeddings; with heads that divide unevenly over ranks. And the
 * policies that are tried on them: every preset of the table, with budgets and decode rules of a table. */
#ifndef LH_TESTS_FAMILY_MODELS_H
#define LH_TESTS_FAMILY_MODELS_H

#include "engine/tiny_model.h"
#include "policies/policy.h"

enum { FAMILIES = 10, FAMILY_PROMPT = 140, FAMILY_STEPS = 12, FAMILY_VOCAB = 211, FAMILY_LAYERS = 7 };

extern const tiny_shape family_shapes[FAMILIES];

/* The models in a folder of their own, made by rank 0 for all; and a prompt that is longer than any window, with tokens
 * to go on with. No token comes twice: equal tokens have keys of equal norm in the first layer, and rounding would
 * decide between them. */
typedef struct family_models {
    char folder[64], paths[FAMILIES][96];
    int32_t ids[FAMILY_PROMPT + FAMILY_STEPS];
} family_models;

void family_models_make(family_models *m); /* collective */
void family_models_remove(family_models *m);

/* With LONGHAUL_LONG=1 in the environment: all cases instead of a sample. */
int family_is_long(void);

/* Case `number` of a preset, 0 to family_cases - 1: a budget, a decode rule or blocks, layers that compete, slot
 * positions. 0 where the policy does not allow it. The first five are the preset as it is. */
enum { FAMILY_CASES = 5 * 6 * 3 };
int family_policy(lh_policy_options *out, int preset, int number);

/* Chance that is the same on all ranks. */
typedef struct family_dice {
    uint32_t seed, count;
} family_dice;
int64_t family_roll(family_dice *d, int64_t n);

/* The next case of a preset that is to be tried, from *number on; 0 after the last. All of them in the long run, else
 * case 0 and one that the dice choose, on several ranks one of these two. */
int family_next(family_dice *d, int preset, int *number, lh_policy_options *out);

#endif
