/* ops_score.h - scores of entries from statistics, keys, positions and random numbers. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_SCORE_H
#define LH_KERNELS_OPS_SCORE_H

#include <stdint.h>

#include "base/both.h"
#include "base/dtype.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_SCORE(X)                                                                           \
    X(finish_scores, "statistics of columns as scores")                                           \
    X(entry_norms, "norms of keys or values")                                                     \
    X(projected_norms, "norms of values after the output projection")                             \
    X(value_ranges, "ranges of the channels of values")                                           \
    X(position_scores, "score entries by position")                                               \
    X(random_scores, "score entries at random")                                                   \
    X(key_difference, "score entries by how far their keys are from the mean key")                \
    X(lag_scores, "score entries by how keys and values deviate from the next part of the text")  \
    X(entry_features, "numbers of entries that learnt scores are sums of")                        \
    X(linear_scores, "score entries by learnt weights of their keys and values")                  \
    X(divide_rows, "divide the weights of rows by norms")                                         \
    X(row_moments, "add up rows and their outer products")                                        \
    X(expected_scores, "attention that entries may expect from queries of a normal distribution") \
    X(gumbel_scores, "perturb scores for sampling without replacement")

/* y[h * parts + c, s] from the numbers x_c of an entry and n, its visits: the rows at positions first_row .. seen - 1
 * that saw it, and `more` other rows that saw every entry: n = max(0, min(seen, p + window) - max(p, first_row)) + more
 * at position p (without a window, min(seen, p + window) is seen). PLAIN: factor * x; ROOT: sqrt(factor * x);
 * PER_VISIT: factor * x / n, 0 if n <= 0; DEVIATION: sqrt(max(0, squares / n - (x / n)^2)), 0 if n <= 1. */
typedef enum lh_finish_kind {
    LH_FINISH_PLAIN,
    LH_FINISH_ROOT,
    LH_FINISH_PER_VISIT,
    LH_FINISH_DEVIATION
} lh_finish_kind;
typedef struct lh_finish_scores_args {
    float *y; /* [heads * parts, ld] */
    lh_slot_floats x, squares;
    const lh_ragged *kv;
    int64_t ld, parts, first_row, seen, window, more;
    lh_finish_kind kind;
    float factor;
} lh_finish_scores_args;

/* y of the last `last` slots of every head = ||x||_2 (L2), its square (SQUARE) or its negative (MINUS_L2); x is the key
 * or the value of the entry. */
typedef enum lh_entry_part { LH_PART_KEY, LH_PART_VALUE } lh_entry_part;
typedef enum lh_norm_kind { LH_NORM_L2, LH_NORM_SQUARE, LH_NORM_MINUS_L2 } lh_norm_kind;
typedef struct lh_entry_norms_args {
    lh_slot_floats y;
    const lh_ragged *kv;
    int64_t last;
    lh_entry_part part;
    lh_norm_kind kind;
} lh_entry_norms_args;

/* y[h,s] = the largest channel of the value in slot s of head h minus the smallest (VaSE, arXiv 2606.03928). y: [heads,
 * ld]. */
typedef struct lh_value_ranges_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
} lh_value_ranges_args;

/* y[i,n] = sum over o < out of |sum over d of v[d] * w[o, i * head_dim + d]|; v is the n-th value of the last `last`
 * entries of the KV head of query head i (CriticalKV, arXiv 2502.03805: L1 norm after the output projection). w: [out,
 * heads * head_dim] with w_ld, f32 or bf16. Over a bf16 cache or with bf16 weights a backend may round v to bf16. */
typedef struct lh_projected_norms_args {
    float *y; /* [map.heads, ld] */
    const lh_ragged *kv;
    lh_grouping map;
    int64_t last, ld;
    const void *w;
    lh_dtype type;
    int64_t out, w_ld;
} lh_projected_norms_args;

/* y[h,s] = a number in [0, 1) that depends on the key, on `counter` (the caller's count of layers and evictions), on
 * the global KV head first_head + h and on the position of the entry: word 0 of Philox(key, {counter[0], counter[1],
 * head, position}). */
typedef struct lh_draw {
    uint32_t key[2], counter[2];
    int64_t first_head;
} lh_draw;
typedef struct lh_random_scores_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
    lh_draw draw;
} lh_random_scores_args;

/* y[h,s] = x[h,s] / temperature + g, g = -log(-log(u)) with u in (0, 1] drawn as in random_scores (lh_uniform_open; u =
 * 1 gives +inf): the k largest are a sample without replacement with probabilities softmax(x / temperature).
 * proportional: log(x) instead of x, so that with temperature 1 probabilities are proportional to x; -inf if x is not
 * positive. */
typedef struct lh_gumbel_scores_args {
    float *y;
    const float *x;
    const lh_ragged *kv;
    int64_t ld;
    float temperature;
    int proportional;
    lh_draw draw;
} lh_gumbel_scores_args;

/* y[r] = the features of entry r with key k, not rotated, and value v: k, v, the squares of their channels, ln of their
 * lengths (at least 1e-6), and 1. */
static LH_BOTH inline int64_t lh_feature_count(int64_t head_dim)
{
    return 4 * head_dim + 3;
}
typedef struct lh_entry_features_args {
    float *y;                   /* [rows, lh_feature_count(dim)] with y_ld */
    const float *keys, *values; /* [rows, dim] */
    int64_t rows, dim, y_ld;
} lh_entry_features_args;

/* y[h,s] = weights w[h] times the features of the entry in slot s of head h (lh_entry_features_args); its key is
 * rotated back first: the inverse of operation rope with these frequencies and this scale, at the position of the
 * entry. */
typedef struct lh_linear_scores_args {
    float *y;              /* [heads, ld] */
    const float *w;        /* [heads, lh_feature_count(head_dim)] with w_ld */
    const lh_ragged *kv;   /* f32 or bf16 */
    const float *inv_freq; /* [rotary / 2] */
    int64_t rotary;        /* 0: keys are not rotated */
    float scale;
    int64_t ld, w_ld;
} lh_linear_scores_args;

/* lse[r,i] += ln(squares[r]) / 2: the weights exp(logit - lse) of a row are divided by the norm whose square is given,
 * at least 1e-12. */
typedef struct lh_divide_rows_args {
    float *lse;           /* [rows, heads] */
    const float *squares; /* [rows] */
    int64_t rows, heads;
} lh_divide_rows_args;

/* sums[i, a] += sum over rows of x[r, i, a], products[i, a, b] += sum over rows of x[r, i, a] * x[r, i, b]. Rows are
 * summed in order, then added. */
typedef struct lh_row_moments_args {
    double *sums;     /* [heads, dim]; NULL: not wanted */
    double *products; /* [heads, dim, dim] */
    const void *x;    /* row r, head i starts at r * x_ld + i * dim */
    lh_dtype type;    /* of x: f32 or bf16 */
    int64_t rows, heads, dim, x_ld;
} lh_row_moments_args;

/* y[i, s] = softmax, over the competing entries of query head i's KV head, of scale * m.k + scale^2 / 2 * k'Ck + b with
 * the entry's bias b: the logarithm of the mean of exp(scale * q.k + b) for normally distributed q with mean m and
 * covariance C (expected attention, arXiv 2510.00636, eq. 6). Other entries get 0. The map begins and ends with whole
 * groups. y: [heads, ld]. */
typedef struct lh_expected_scores_args {
    float *y;
    const float *means;       /* [heads, head_dim] */
    const float *covariances; /* [heads, head_dim, head_dim], symmetric */
    const uint8_t *state;     /* [KV heads, ld] */
    const lh_ragged *kv;
    lh_grouping map;
    int64_t ld;
    float scale;
} lh_expected_scores_args;

/* y[h,s] = -cos(k_s, mean over the entries of head h of k / ||k||) (KeyDiff, arXiv 2504.15364); norms are at least
 * 1e-8. */
typedef struct lh_key_difference_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
} lh_key_difference_args;

/* LagKV (arXiv 2504.04704), as in kvpress 0.5.5. From slot `first` on, the entries of a head are cut into whole parts
 * of `lag`. Channel c of an entry becomes (x - min) / (max - min), with min and max of channel c in the next part, 0 if
 * they are equal; the deviation of an entry is the standard deviation of its head_dim channels (over head_dim - 1); e =
 * the mean of the softmax over the part of the deviations of keys, and of values. y[h,s] = number of entries of the
 * part with a smaller e, or with an equal e and a later slot, over lag. The last whole part and the entries after it
 * have no next part: from slot `end` on y rises from 1 to 2; before `first` y = 3. */
typedef struct lh_lag_scores_args {
    float *y; /* [heads, ld] */
    const lh_ragged *kv;
    int64_t ld, first, lag;
} lh_lag_scores_args;

static LH_BOTH inline int64_t lh_lag_end(int64_t len, int64_t first, int64_t lag)
{
    int64_t parts = len > first ? (len - first) / lag : 0;
    return first + (parts > 1 ? parts - 1 : 0) * lag;
}

/* y of a slot outside the parts with a next part. */
static LH_BOTH inline float lh_lag_rest(int64_t slot, int64_t first, int64_t end, int64_t len)
{
    return slot < first ? 3.0f : 1.0f + (float)(slot - end + 1) / (float)(len - end);
}

/* y[h,s] = position of the entry in slot s of head h, as float. y: [heads, ld]. */
typedef struct lh_position_scores_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
} lh_position_scores_args;

#endif
