/* study.h - the results of a replay, as input of analyses. A study is some policies at some budgets over the layers of
 * a trace; policies are evaluated by reference rows: those recorded after the prompt, which are the future of the
 * eviction, or rows of the prompt. Layers are visited one by one; in each the KV heads; in each every policy at every
 * budget. */
#ifndef LH_LAB_REPLAY_STUDY_H
#define LH_LAB_REPLAY_STUDY_H

#include "lab/trace/trace_file.h"

enum {
    LH_STUDY_BUDGETS = 32,
    LH_STUDY_BINS = 64,
    LH_STUDY_TOP = 64,
    LH_STUDY_SHARES = 3,
    LH_STUDY_THRESHOLDS = 6,
    LH_STUDY_PROXIES = 8,
    LH_STUDY_SCORES = 3,
    LH_STUDY_ALLOCATIONS = 2
};

/* What figures go by: shares of attention, thresholds, numbers of proxies; scores of analysis_gain.c, and ways to
 * divide a budget among heads. */
extern const double lh_study_shares[LH_STUDY_SHARES];
extern const double lh_study_thresholds[LH_STUDY_THRESHOLDS];
extern const double lh_study_proxies[LH_STUDY_PROXIES];
extern const char *const lh_study_scores[LH_STUDY_SCORES];
extern const char *const lh_study_allocations[LH_STUDY_ALLOCATIONS];

typedef struct lh_study {
    const char *const *policies; /* [policy_count] names */
    const char *const *budgets;  /* [budget_count], as they were given: "256", "20%" */
    int64_t policy_count, budget_count;
    int64_t
        oracle; /* index of the policy that knows the reference rows; after it, if any, the one with adaptive budgets */
    int64_t layers, heads, kv_heads, group, head_dim, hidden;
} lh_study;

/* A layer, after the selections of all policies. Bit b of kept[(p * kv_heads + g) * tokens + j]: policy p keeps entry j
 * of KV head g at budget b. */
typedef struct lh_layer_facts {
    const lh_study *study;
    const lh_trace_layer *recorded;
    const uint32_t *kept;
    const uint32_t *given; /* [policies]: the budgets that the policy has */
    int64_t layer, tokens;
    int64_t column_rows; /* the last rows of the prompt that recorded columns count */
    int64_t window;      /* keys that a row sees, in a sliding layer; 0: all */
    /* of the reference rows, known when all heads of the layer were judged: */
    const float *reference; /* [kv_heads, tokens] attention that they give to an entry, as their mean, added up over the
                             * query heads of the KV head */
    double largest;         /* the largest L1 norm of all projected values; NAN without a projection */
    const struct lh_replay *replay; /* of lh_layer_observe */
} lh_layer_facts;

/* Adds the attention that rows [first, end) of the prompt give to each entry, as the mean over the query heads of a KV
 * head, to sums [kv_heads, tokens]; kept > 0: with AhaKV's step gain for so many entries. The rows are among the last
 * lh_layer_observable that the trace has. */
typedef struct lh_observed_rows {
    int64_t first, end, kept;
} lh_observed_rows;
int64_t lh_layer_observable(const lh_layer_facts *layer);
lh_status lh_layer_observe(const lh_layer_facts *layer, const lh_observed_rows *rows, float *sums);

/* Entries that the oracle keeps of a KV head at a budget. */
int64_t lh_layer_kept(const lh_layer_facts *layer, int64_t budget, int64_t head);

/* Counted rows that see entry j; the stretch of the prompt that it lies in (LH_AXIS_BIN), and the entries of a stretch.
 */
int64_t lh_layer_visits(const lh_layer_facts *layer, int64_t j);
int64_t lh_layer_bin(const lh_layer_facts *layer, int64_t j);
int64_t lh_layer_bin_size(const lh_layer_facts *layer, int64_t bin);

/* A KV head of it: the attention of the reference rows of its query heads, row r of query head i of the group at i *
 * rows + r. The weights of a row and `later`, its weight of entries after the prompt (always kept), sum to 1. */
typedef struct lh_head_facts {
    const lh_layer_facts *layer;
    int64_t head, rows, n;  /* n = group * rows */
    const float *weights;   /* [n, tokens] */
    const float *later;     /* [n] */
    const float *output;    /* [n, head_dim] of the full cache */
    const float *largest;   /* [group] the largest L1 norm of all projected values; NULL without a projection */
    const float *output_l1; /* [n] L1 norm of the projected output; NULL without a projection */
} lh_head_facts;

/* The effect of a policy at a budget. */
typedef struct lh_outcome {
    int64_t policy, budget, kept; /* kept: entries */
    const float *mass, *lost; /* [n] kept share of a row's attention, entries after the prompt included, and lost share:
                                 both equally exact */
    const float *delta;       /* [n, head_dim] output after the eviction less the full one */
    const float *kept_norm,
        *lost_norm; /* [n] sums of weights times norms of projected values, over kept entries (entries after the prompt
                       included) and over lost entries; NULL without a projection */
    const float *projected_l1; /* [n] L1 norm of the projected delta; NULL without a projection */
    double hits;               /* share of the rows' LH_STUDY_TOP largest weights that is kept */
} lh_outcome;

/* The model's predictions of the tokens after a prompt with the entries that a policy keeps at a budget: means over
 * the tokens. NAN: the policy has no such budget. */
typedef struct lh_continued {
    const lh_study *study;
    int64_t policy, budget;
    double kl;        /* KL(full || policy) of the next token, nats */
    double agreement; /* share of tokens where both have the same most probable one */
    double nll;       /* negative log-likelihood, nats */
} lh_continued;

#endif
