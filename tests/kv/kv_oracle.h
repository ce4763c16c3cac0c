/* kv_oracle.h - what a policy keeps, by its definition: in double, entry by entry, with sorting. All heads of the model
 * at once, for the keys and queries of a rig's case. */
#ifndef LH_TESTS_KV_ORACLE_H
#define LH_TESTS_KV_ORACLE_H

#include "kv_rig.h"

typedef struct oracle {
    const rig_case *of;
    lh_policy_plan plan;
    int64_t cap, seen, steps; /* cap: tokens there can be */
    int64_t budgets[8];
    int made;      /* the budgets are final */
    uint8_t *held; /* [layers, kv_heads, cap] 1: the entry is there */
} oracle;

/* After the prompt and its eviction. */
void oracle_open(oracle *o, const rig_case *of, int64_t cap);
void oracle_close(oracle *o);
void oracle_take(oracle *o, lh_kv_taken what, int64_t tokens);

/* The gathered positions of a layer are those that the oracle holds. */
void oracle_check(const oracle *o, int64_t layer, const lh_kv_positions *got, const char *when);

/* keep[h, p] of the entries that compete, by score, and 1 for those that are protected. scores, state, keep: [heads,
 * cols]; base: entries a head may keep of those that compete, on average. */
typedef struct oracle_choice {
    const lh_policy_plan *plan;
    int64_t heads, cols, base;
    const double *scores;
    const uint8_t *state;
    uint8_t *keep;
} oracle_choice;
void oracle_choose(const oracle_choice *c);

#endif
