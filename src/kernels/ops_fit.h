/* ops_fit.h - operations that fit biases and values of kept entries to the attention of query rows: weights as a
 * matrix, and conjugate gradients, with gemm for the products (src/evict/fit.c composes them). And losses of attention
 * outputs if only the first entries of an order are kept, or if one entry is evicted. Conventions: ops.h. */
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

/* Turns products into weights, in place. x[i * rows + r, s] is q.k of query row r of query head i and the entry in slot
 * first + s of the one KV head of rows.kv; it becomes exp(s_rj - lse[r,i]) with the logit s_rj of lh_observed, or 0 if
 * row r does not see the entry, its lse is -inf, or the weight is above `most` (0: no bound). missing[i * rows + r] = 1
 * - the sum of these weights over s, 0 if the lse is -inf. q and logits of `rows` are not used. */
typedef struct lh_row_weights_args {
    float *x;       /* [map.heads * rows, ld] */
    float *missing; /* [map.heads * rows]; NULL: not wanted */
    lh_observed rows;
    const float *lse; /* [rows, map.heads] with lse_ld */
    int64_t lse_ld, first, cols, ld;
    float most;
} lh_row_weights_args;

/* x[r,c] = x[r,c] * factors[c] / sum over c of x[r,c] * factors[c], 0 if that sum is 0. */
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

/* Preconditioned conjugate gradients (Hestenes and Stiefel 1952) that minimise |A x - y|^2 + t |x - x0|^2, starting
 * from x = x0, with t = ridge * mean of `diagonal`, the diagonal of A'A. Each row of x is a separate problem with the
 * same A. r: A'(y - A x) - t (x - x0), given by the caller for x = x0. With w = 1 / (diagonal + t), 0 if negative or
 * infinite, and quotients by numbers that are not positive as 0:
 *
 *   first call, without products       p = w r, energy = r.p
 *   a step, with products = A p,       a = energy / (|A p|^2 + t |p|^2)
 *   back = A'A p                       x += a p, within [low, high]; r -= a (back + t p)
 *                                      e = r.(w r), p = w r + e / energy * p, energy = e
 *
 * Below LH_CONJUGATE_END of the initial energy only rounding remains: then p and energy become 0. The objective never
 * grows from step to step, unless a bound is reached. */
#define LH_CONJUGATE_END 1e-13f
typedef struct lh_conjugate_gradients_args {
    float *x, *r, *p;      /* [rows, cols] */
    float *energy;         /* [rows, 2]: current and initial */
    const float *products; /* [rows, n]; NULL: first call */
    const float *back;     /* [rows, cols] */
    const float *diagonal; /* [cols] */
    int64_t rows, cols, n;
    float ridge, low, high;
} lh_conjugate_gradients_args;

/* factors[c] = 1 + a x[c] and bias[c] = log(factors[c]), with the a in [0, 1] that minimises |missing - a products|; 0
 * if products are 0. x > -1; products, [n]: weights times x. So for any x the weights times the factors miss no more of
 * the rows' sums than the weights did. */
typedef struct lh_mass_bias_args {
    float *bias, *factors; /* [cols] */
    const float *x, *products, *missing;
    int64_t cols, n;
} lh_mass_bias_args;

/* Losses of the outputs of n query rows over the first stretches of an order of entries, relative to the outputs over
 * all. With S_p = sums[0] + ... + sums[p] and O_p[x,r] = S_p[x,r] / S_p[dim,r], 0 if that sum of weights is not
 * positive:
 *
 *   losses[p] = sum over r and x of (O_p[x,r] - O_last[x,r])^2     energy = sum over r and x of O_last[x,r]^2
 *
 * So losses[points - 1] is 0. The order of additions does not depend on the number of threads. */
typedef struct lh_curve_losses_args {
    float *losses; /* [points] */
    float *energy; /* [1] */
    const float
        *sums; /* [points, dim + 1, n]: a row's weights times values, summed, and at `dim` the sum of its weights */
    int64_t points, dim, n;
} lh_curve_losses_args;

/* Adds the squared errors of the outputs of n query rows if the entry of slot s is evicted and its weight is
 * distributed over the other entries in proportion (CAOTE, arXiv 2504.14051, theorem 3.1). With p = weights[i,s] /
 * masses[i], v the value and o = the row's output, its sums over masses[i]:
 *
 *   errors[s] += sum over i of (p / (1 - p))^2 |v - o|^2     |v - o|^2 from squares, products and energies, at least 0
 *
 * A weight above LH_DOMINANT cancels too much of 1 - p and of v - o. Its term is p^2 |v - o'|^2, the same number, with
 * o' = rest[x,i] / rest[dim,i], the output over the other entries, 0 without any. Rows with a mass that is not positive
 * add nothing. Rows are added in order, those with dominant weights last. */
#define LH_DOMINANT 0.75f
typedef struct lh_output_errors_args {
    float *errors;         /* [cols] */
    const float *weights;  /* [n, ld] */
    const float *products; /* [n, ld] products of the row's sums and the values */
    const float *squares;  /* [cols] squares of the values */
    const float *values;   /* [cols, dim] */
    const float *energies; /* [n] squares of the row's sums */
    const float *masses;   /* [n] sums of the row's weights */
    const float *rest; /* [dim + 1, n] sums of weights times values, and of weights, over weights up to LH_DOMINANT */
    int64_t n, cols, dim, ld;
} lh_output_errors_args;

#endif
