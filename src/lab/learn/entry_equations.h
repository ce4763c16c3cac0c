/* entry_equations.h - normal equations of a ridge regression for each KV head of a rank: from the features of an entry
 * (entry_features of ops_score.h) to the logarithm of a score. */
#ifndef LH_LAB_LEARN_ENTRY_EQUATIONS_H
#define LH_LAB_LEARN_ENTRY_EQUATIONS_H

#include "evict/evict.h"
#include "evict/plain_entries.h"

typedef struct lh_entry_equations {
    const lh_exec *exec;
    int64_t layers, heads, features; /* heads: KV heads that this rank counts */
    double *at; /* device: [layers, heads, features + 1, features + 1], the last column is the target */
} lh_entry_equations;

lh_status lh_entry_equations_open(lh_entry_equations *out, const lh_exec *exec, int64_t layers, int64_t heads,
                                  int64_t head_dim);
void lh_entry_equations_close(lh_entry_equations *e);

/* Adds entries [first, first + count) of a head of this rank, which are loaded. rows: device,
 * [LH_PLAIN_ENTRIES_AT_ONCE, features + 1], with the targets in the last column; the features are written. */
void lh_entry_equations_add(const lh_entry_equations *e, const lh_plain_entries *loaded, int64_t layer, int64_t head,
                            int64_t count, float *rows);

/* Solves the equations of a head on the host. weights: [features]. *explained: the share of the variance of the target
 * that they explain on these entries; -1, with weights of 0, where there were none. LH_EINPUT if the equations are not
 * finite or have no solution. */
lh_status lh_entry_equations_solve(const lh_entry_equations *e, int64_t layer, int64_t head, double ridge,
                                   float *weights, float *explained);

#endif
