/* fit.h - biases and values of the kept entries, fitted to the attention output of query rows before the eviction
 * (attention matching, arXiv 2602.16284). For a KV head, with the n rows of its query heads, weights P_rj = exp(s_rj -
 * lse_r) of the kept entries and the rows' outputs Y over all entries:
 *
 *   bias     factors B within [e^-3, e^3] that bring the rows of P B near 1, from B = 1 on; ln B is added to the logits
 *            of the entry from then on and stands for the attention that its evicted neighbours received;
 *   values   with X the rows of P B as shares of their sum: values near the old ones that bring X V near Y.
 *
 * Both are ridge regressions, minimised by a few steps of preconditioned conjugate gradients: products of matrices, and
 * no n x n or entries x entries matrix. Every step lowers the residual, so that the residual on the rows never grows,
 * and to stop early holds back as a ridge does: few rows suffice. SmolLM2, Kullback-Leibler divergence of the next
 * token to the full cache:
 *
 *   kept            unfitted      512 rows, exact   512 rows   128 rows   64 rows   32 rows
 *   20% of 1,557    0.070         0.023             0.023      0.029      0.026     0.035
 *   20% of 3,837    0.099                           0.075      0.074      0.076     0.079
 *
 * (3 and 3 steps; on 512 of 1,557, 8 and 4). Rows should score from after the prompt: rows that saw only earlier
 * entries mislead a fit.
 *
 * A head without evicted entries does not change by a bit. The fit is local to a KV head: the same bits
 * on any number of ranks with LH_ORDER_FIXED. If a head lies on several ranks, each of them computes the same fit from
 * the rows of the whole group (lh_join_rows). Over a bf16 cache all products are of numbers rounded to bf16, like the
 * products of attention are, but for LH_ORDER_FIXED and where products are to be exact. */
#ifndef LH_EVICT_FIT_H
#define LH_EVICT_FIT_H

#include "exec/exec.h"

/* Strength of a regression: its ridge, as a share of the mean square of the regressors, and its steps. */
typedef struct lh_fit_strength {
    float ridge;
    int64_t steps;
} lh_fit_strength;

/* The fit of a layer. Device memory unless marked as host. */
typedef struct lh_fit {
    lh_observed rows; /* whole groups; rows.kv: all entries, later the kept ones; no gains, no logits */
    const float *lse; /* [rows, map.heads] over all entries, with lse_ld */
    int64_t lse_ld;
    const int64_t *offset, *len;  /* host, [KV heads]: of rows.kv */
    const int64_t *before;        /* host, [KV heads]: entries before the eviction */
    float *outputs;               /* [KV heads, head_dim + 1, group x rows]: lh_fit_add_sums of all entries */
    int keeps_bias, keeps_values; /* 1: biases of rows.kv, or values, do not change */
    lh_order order;
    int exact;  /* 1: products in f32 over a bf16 cache, too */
    float most; /* weights above it count as 0; 0: all count */
    lh_fit_strength of_bias, of_values;
} lh_fit;

extern const lh_fit_strength lh_fit_usual_bias, lh_fit_usual_values;

/* Entries of a block before an eviction. */
enum { LH_FIT_AT_ONCE = 512 };

/* Bytes of `outputs`. */
int64_t lh_fit_output_bytes(const lh_fit *fit);

/* Some slots of a KV head. */
typedef struct lh_fit_slots {
    int64_t head, first, count;
} lh_fit_slots;

/* The weights that the rows give to LH_FIT_AT_ONCE slots of rows.kv at most: [group x rows, count], on the scratch
 * stack. */
const float *lh_fit_weights(const lh_exec *exec, const lh_fit *fit, lh_fit_slots slots);

/* y [head_dim + 1, group x rows] += the sums over slots of rows.kv of the rows' weights times values; and, last, of the
 * weights. */
void lh_fit_add_sums(const lh_exec *exec, const lh_fit *fit, lh_fit_slots slots, float *y);

/* Before the eviction: the rows' outputs over all entries. */
void lh_fit_outputs(const lh_exec *exec, const lh_fit *fit);

/* After it, with compact entries: replaces values and biases. Heads without evicted entries keep their biases: an arena
 * begins with 0. */
void lh_fit_entries(const lh_exec *exec, const lh_fit *fit);

#endif
