/* kv_oracle.h - what a policy keeps, by its definition: in double, entry by entry, over whole rows of weights, with
 * sorting. All heads of the model at once, for the keys, values and queries of a rig's case. An entry remembers when it
 * went, so that statistics of any number of steps can be made again from the first row on. */
#ifndef LH_TESTS_KV_ORACLE_H
#define LH_TESTS_KV_ORACLE_H

#include "kv_rig.h"

/* A score, and how far from it one made of floats may lie. */
typedef struct oracle_number {
    double x, error;
} oracle_number;

/* What rows gave to the entries of one KV head; each [cap], sums [group, cap]. each: squares of all query heads,
 * largest: their largest weights. unsure: rows of which rounding decides whether they count. errors: squared errors of
 * the rows' outputs without the entry, off: how far from it those of floats may lie. */
typedef struct oracle_tally {
    double *sums, *squares, *counts, *unsure, *visits, *each, *largest, *errors, *off;
    int64_t group, cap;
} oracle_tally;

typedef struct oracle {
    const kv_rig_case *of;
    lh_policy_numbers fixed; /* shares are of the prompt */
    int64_t cap;             /* tokens there can be */
    int64_t seen, steps, evictions, first_row;
    int64_t blocks;                                         /* evictions of a layer while the prompt was taken in */
    int32_t *began;                                         /* [cap] tokens seen before those that a row came with */
    int64_t budgets[KV_RIG_LAYERS], counted[KV_RIG_LAYERS]; /* counted: rows of a layer that its tallies have */
    int made;                                               /* the budgets are final */
    double *k, *v, *q, *w;    /* [layers, cap, heads, dim]; w: [layers, hidden, heads, dim] */
    int32_t *gone;            /* [layers, kv_heads, cap] tokens seen when an entry went, INT32_MAX: it is there */
    uint8_t *doubt;           /* alike: the last eviction may have decided otherwise, but for rounding */
    oracle_tally *tallies;    /* [layers, kv_heads], where statistics go on */
    int64_t decided, doubted; /* entries that competed, and of them those in doubt, so far */
    int64_t checked[2];       /* entries of the layers checked so far: wanted, and there */
    struct oracle *saved;
} oracle;

/* After the prompt and its eviction. Where it is taken in in blocks, `got` has what layers held before each of them,
 * which is checked; elsewhere NULL will do. */
void oracle_open(oracle *o, const kv_rig_case *of, int64_t cap, const kv_rig_result *got);
void oracle_close(oracle *o);
void oracle_take(oracle *o, lh_kv_taken what, int64_t tokens);
void oracle_save(oracle *o);
void oracle_restore(oracle *o);

/* The gathered positions of a layer are those that the oracle holds. To be called after every eviction: where rounding
 * decides, the oracle goes on with what is there. */
void oracle_check(oracle *o, int64_t layer, const lh_positions *got, const char *when);

/* Log-sum-exps of the newest row, [layers, heads], are those over the entries that it saw. */
void oracle_check_lse(const oracle *o, const float *got, const char *when);

/* Statistics of KV head g from the first row on, made anew; the arrays are the caller's (oracle_tally_clear). */
oracle_tally oracle_recount(const oracle *o, int64_t layer, int64_t g);
void oracle_tally_clear(oracle_tally *t);

/* CriticalKV's norm of an entry, and AhaKV's. */
double oracle_projected_norm(const oracle *o, int64_t layer, int64_t g, int64_t p);
double oracle_value_square(const oracle *o, int64_t layer, int64_t g, int64_t p);

/* keep[h, p]: what stays of the entries that compete, and 1 for those that are protected. doubt (may be NULL): rounding
 * decides. first, second, state, keep, doubt: [heads, cols]; heads, of one layer or of `layers` in their order, compete
 * by `flat`. second NULL: one stage. */
typedef struct oracle_choice {
    const lh_policy_numbers *fixed;
    const lh_protection *protect; /* [layers] */
    int64_t layers, heads, cols;  /* heads: of all layers */
    const oracle_number *first, *flat, *second;
    const uint8_t *state;
    uint8_t *keep, *doubt;
} oracle_choice;
void oracle_choose(const oracle_choice *c);

/* Scores of one layer for an eviction, by kv_oracle_scores.c. state: [kv_heads, cap]; each array alike, owned by the
 * caller. second is NULL with one stage, gains where heads do not compete by losses; flat is one of the others. */
typedef struct oracle_scores {
    oracle_number *first, *second, *gains, *flat;
} oracle_scores;
void oracle_score(oracle *o, int64_t layer, const uint8_t *state, oracle_scores *out);
void oracle_scores_clear(oracle_scores *s);

/* Add rows [from, to) of a layer to the tally of KV head g: over the entries of their time, or (1) those that are there
 * now; causal (1): whatever the policy says. after: where a single row stands that is moved, after all of them. */
typedef struct oracle_rows {
    int64_t layer, g, from, to;
    int now, causal;
    int64_t after;
} oracle_rows;
void oracle_observe(const oracle *o, const oracle_rows *rows, oracle_tally *to);

/* The r-th of n rows that score, or are references: 1/n, 2/n, ... of the way through the prompt, or the last ones; and
 * where they stand after it. Of no layer and head yet. */
oracle_rows oracle_chosen_row(const oracle *o, int64_t n, int64_t r);

/* The r-th of n that are references beside those that score from their own places: of the whole prompt, after it. */
oracle_rows oracle_reference_row(const oracle *o, int64_t n, int64_t r);

/* Of kv_oracle_ranks.c. The scores of a head's entries become those of the turns that they take with its keys; and what
 * the entries of a layer gain, [kv_heads, cap]. */
void oracle_take_turns(oracle *o, int64_t layer, int64_t g, const uint8_t *state, oracle_number *scores);
void oracle_gain(const oracle *o, int64_t layer, const uint8_t *state, const oracle_number *scores, oracle_number *out);

/* What it is made of: scores of keys, means over the pool of a policy that pools, values, and the weights [cap] that
 * query head i of its group gives in row rows->from. */
void oracle_smooth(const oracle *o, const uint8_t *state, oracle_number *scores);
void oracle_score_keys(oracle *o, int64_t layer, int64_t g, const uint8_t *state, oracle_number *scores);
const double *oracle_value(const oracle *o, int64_t layer, int64_t p, int64_t g);
void oracle_row_weights(const oracle *o, const oracle_rows *rows, int64_t i, double *weights);

/* 1 if kv_oracle_scores.c defines the scores of a source; else the test fails, and says where the definition goes. */
int oracle_defines(lh_method_id source);

/* The learnt score of an entry with key k, not rotated, and value v; and the larger of a score of attention and the
 * weight that a learnt score stands for. */
oracle_number oracle_learnt(const kv_rig_case *of, int64_t layer, int64_t head, const double *k, const double *v);
oracle_number oracle_larger(oracle_number score, oracle_number learnt, int64_t seen);

/* LagKV: e of the n entries at `first` += what their softmax over the deviations of x is; x: keys or values of all
 * entries. */
void oracle_add_lag_weights(const double *x, int64_t dim, int64_t first, int64_t n, double *e);

/* The ranks of a part. A rank is off by as many as are close. */
void oracle_rank_part(const double *e, int64_t n, oracle_number *scores);

/* R-KV's redundancy of n entries in the order of their positions: the softmax of the means of their cosines, without
 * the last entry above 0.5 of each. keys: [n, dim]. */
void oracle_redundancy(const double *keys, int64_t n, int64_t dim, oracle_number *y);

/* y[p] = x_p' (X'X + 0.01 I)^-1 x_p, x_p the p-th of n keys less their mean. keys: [n, dim]. */
void oracle_leverage(const double *keys, int64_t n, int64_t dim, double *y);

/* How far sums of weights may lie from those of floats, relatively. */
double oracle_rounding(const oracle *o);

/* Whether a row's keys and its query stand at slots. */
int oracle_stands_at_slots(const oracle *o, int64_t row);

/* [count] of `size` bytes, zero. */
void *oracle_alloc(int64_t count, int64_t size);
int64_t oracle_window(const oracle *o, int64_t layer); /* INT32_MAX: all */

#endif
