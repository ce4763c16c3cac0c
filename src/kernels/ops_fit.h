/* ops_fit.h - what fits biases and values of the entries that stay to the attention of query rows: weights as a matrix,
 * and conjugate gradients, whose products are those of gemm. src/evict/fit.c puts them together. And what the outputs
 * of query rows lose where only the first entries of an order stay, or where one entry goes. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_FIT_H
#define LH_KERNELS_OPS_FIT_H

#include "kernels/ops_attend.h"

/* X(operation, summary) of this family. */
#define LH_OPS_FIT(X)                                                                                   \
    X(row_weights, "weights that query rows give to entries, from logits")                              \
    X(normalise_rows, "weights of rows, by factors, as shares of their sum")                            \
    X(transpose, "transpose a matrix, between number formats")                                          \
    X(conjugate_gradients, "one step of conjugate gradients for ridge regressions that share a matrix") \
    X(mass_bias, "biases of entries that make up for evicted attention")                                \
    X(curve_losses, "losses of attention outputs by the number of entries that stay")                   \
    X(output_errors, "squared errors of attention outputs without an entry")

/* Products become weights, in place. x[i * rows + r, s] was q.k of query row r of query head i and of the entry in slot
 * first + s of the one KV head of rows.kv; it becomes exp(s_rj - lse[r,i]) with the logit s_rj that lh_observed speaks
 * of, 0 where row r does not see the entry, its lse is -inf, or it were above `most` (0: no bound). missing[i * rows +
 * r] = 1 - sum over s of them, 0 where the lse is -inf. q and logits of `rows` are not used. */
typedef struct lh_row_weights_args {
    float *x;       /* [map.heads * rows, ld] */
    float *missing; /* [map.heads * rows]; NULL: not wanted */
    lh_observed rows;
    const float *lse; /* [rows, map.heads] with lse_ld */
    int64_t lse_ld, first, cols, ld;
    float most;
} lh_row_weights_args;

/* x[r,c] = x[r,c] * factors[c] / sum over c of x[r,c] * factors[c], 0 where that sum is 0. */
typedef struct lh_normalise_rows_args {
    float *x;
    const float *factors; /* [cols]; NULL: all 1 */
    int64_t rows, cols, ld;
} lh_normalise_rows_args;

/* y[c,r] = factor * x[r,c]; y must not alias x. */
typedef struct lh_transpose_args {
    void *y;
    const void *x;
    lh_dtype y_type, x_type; /* f32 or bf16 */
    int64_t rows, cols, y_ld, x_ld;
    float factor;
} lh_transpose_args;

/* Conjugate gradients (Hestenes and Stiefel 1952, preconditioned) that minimise |A x - y|^2 + t |x - x0|^2 from x = x0
 * on, t = ridge * mean of `diagonal`, the diagonal of A'A. Each row of x is a problem of its own, A is the same for
 * all. r: A'(y - A x) - t (x - x0), given by the caller where x = x0. With w = 1 / (diagonal + t), 0 where that is
 * negative or infinite, and quotients by what is not positive as 0:
 *
 *   the beginning, without products    p = w r, energy = r.p
 *   a step, with products = A p,       a = energy / (|A p|^2 + t |p|^2)
 *   back = A'A p                       x += a p, within [low, high]; r -= a (back + t p)
 *                                      e = r.(w r), p = w r + e / energy * p, energy = e
 *
 * At LH_CONJUGATE_END of the energy of the beginning nothing but rounding is left: then p and energy become 0. What is
 * minimised never grows from step to step, as long as no bound is met. */
#define LH_CONJUGATE_END 1e-13f
typedef struct lh_conjugate_gradients_args {
    float *x, *r, *p;      /* [rows, cols] */
    float *energy;         /* [rows, 2]: now, and at the beginning */
    const float *products; /* [rows, n]; NULL: the beginning */
    const float *back;     /* [rows, cols] */
    const float *diagonal; /* [cols] */
    int64_t rows, cols, n;
    float ridge, low, high;
} lh_conjugate_gradients_args;

/* factors[c] = 1 + a x[c] and bias[c] = log(factors[c]), with the a in [0, 1] that minimises |missing - a products|; 0
 * where products are 0. x > -1; products, [n]: those of the weights and x. So the weights times the factors miss no
 * more of the rows' sums than the weights did, whatever x is. */
typedef struct lh_mass_bias_args {
    float *bias, *factors; /* [cols] */
    const float *x, *products, *missing;
    int64_t cols, n;
} lh_mass_bias_args;

/* Losses of the outputs of n query rows over the first stretches of an order of entries, against those over all. With
 * S_p = sums[0] + ... + sums[p] and O_p[x,r] = S_p[x,r] / S_p[dim,r], 0 where that sum of weights is not positive:
 *
 *   losses[p] = sum over r and x of (O_p[x,r] - O_last[x,r])^2     energy = sum over r and x of O_last[x,r]^2
 *
 * So losses[points - 1] is 0. The order of additions does not depend on the number of threads. */
typedef struct lh_curve_losses_args {
    float *losses;     /* [points] */
    float *energy;     /* [1] */
    const float *sums; /* [points, dim + 1, n]: a row's weights times values, and at `dim` its weights, added up */
    int64_t points, dim, n;
} lh_curve_losses_args;

/* Squared errors of the outputs of n query rows without the entry of slot s, whose weight the others take in their
 * proportions (CAOTE, arXiv 2504.14051, theorem 3.1), added to what is there. With p = weights[i,s] / masses[i], v the
 * value and o = the row's output, its sums over masses[i]:
 *
 *   errors[s] += sum over i of (p / (1 - p))^2 |v - o|^2     |v - o|^2 from squares, products and energies, not below 0
 *
 * A weight above LH_DOMINANT leaves too little of 1 - p and of v - o. That term is p^2 |v - o'|^2, the same number,
 * with o' = rest[x,i] / rest[dim,i], the output over the other entries, 0 where there are none. Rows whose mass is not
 * positive add nothing. Rows are added in order, those of dominant weights last. */
#define LH_DOMINANT 0.75f
typedef struct lh_output_errors_args {
    float *errors;         /* [cols] */
    const float *weights;  /* [n, ld] */
    const float *products; /* [n, ld] of the row's sums and the values */
    const float *squares;  /* [cols] of the values */
    const float *values;   /* [cols, dim] */
    const float *energies; /* [n] squares of the row's sums */
    const float *masses;   /* [n] sums of the row's weights */
    const float *rest;     /* [dim + 1, n] sums of weights times values, and of weights, none above LH_DOMINANT */
    int64_t n, cols, dim, ld;
} lh_output_errors_args;

#endif
