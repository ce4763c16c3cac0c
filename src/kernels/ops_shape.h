/* ops_shape.h - joining, pooling and weighing scores. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_SHAPE_H
#define LH_KERNELS_OPS_SHAPE_H

#include <math.h>
#include <stdint.h>

#include "base/both.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_SHAPE(X)                                                                           \
    X(group_reduce, "join the query heads of a group")                                            \
    X(pool, "pool scores along positions")                                                        \
    X(raise_scores, "raise scores to those of another scale")                                     \
    X(last_similar, "the last entry whose key is similar to that of an entry")                    \
    X(add_similarities, "add up the cosines of keys")                                             \
    X(mix_scores, "a weighted sum of two scores")                                                 \
    X(largest_outputs, "the largest score of a group's query heads, weighed by norms")            \
    X(weigh_scores, "multiply scores with norms")                                                 \
    X(apply_prior, "multiply scores with a prior whose maximum is 1")                             \
    X(defend_scores, "raise scores to the mean of their head, and weigh them by shares of norms") \
    X(max_score, "the largest score that competes")                                               \
    X(add_heads, "add the scores of all heads as integers")                                       \
    X(share_scores, "one row of scores for all heads")

/* y[h,j] = factor * reduce over i < group of x[h * group + i, j]: mean, max or sum. x: [heads * group, x_ld]. y may be
 * x, with the same ld. */
typedef enum lh_group_kind { LH_GROUP_MEAN, LH_GROUP_MAX, LH_GROUP_SUM } lh_group_kind;
typedef struct lh_group_reduce_args {
    float *y;
    const float *x;
    int64_t heads, group, cols, y_ld, x_ld;
    lh_group_kind kind;
    float factor;
} lh_group_reduce_args;

/* Pools over the competing entries of a row in the order of their positions, ignoring gaps: with c_0, c_1, … the
 * competing entries, y[c_n] = max (padding -inf) or sum / k (zero padding) of x[c_m], |m - n| <= (k - 1) / 2; kind
 * NONE: y[c_n] = x[c_n]. Other entries: y = 0. k is odd, and may be longer than the row. Row r belongs to KV head r /
 * rows_per_head. Positions of a head differ and are below `seen`. y must not alias x. */
typedef enum lh_pool_kind { LH_POOL_NONE, LH_POOL_MAX, LH_POOL_AVG } lh_pool_kind;
typedef struct lh_pool_args {
    float *y;
    const float *x;
    const uint8_t *state; /* [rows / rows_per_head, ld] lh_entry_state */
    const lh_ragged *kv;  /* positions and lengths */
    int64_t rows, rows_per_head, ld, k, seen;
    lh_pool_kind kind;
} lh_pool_args;

/* y[h,s] = max(y[h,s], factor * exp(x[h,s])). */
typedef struct lh_raise_scores_args {
    float *y; /* [heads, ld] */
    const float *x;
    const lh_ragged *kv;
    int64_t ld;
    float factor;
} lh_raise_scores_args;

/* Products of the keys of entries first, …, first + rows - 1 of a head with the keys of all its entries. The cosine of
 * the r-th and entry c is dots[r,c] / ((norms[first + r] + 1e-8) (norms[c] + 1e-8)). */
typedef struct lh_key_products {
    const float *dots;        /* [rows, cols] */
    const float *norms;       /* [cols] of keys */
    const int32_t *positions; /* [cols] of entries; NULL: slots are positions */
    int64_t first, rows, cols;
} lh_key_products;

/* y[r] = the slot of the greatest position among the other entries whose cosine with the r-th entry is above
 * `threshold`; if there are none, the slot of the least position of all entries (R-KV, arXiv 2505.24133). */
typedef struct lh_last_similar_args {
    int32_t *y; /* [rows] */
    lh_key_products of;
    float threshold;
} lh_last_similar_args;

/* y[c] += the cosines of the rows and entry c, without those of an entry with itself and with last[r]. */
typedef struct lh_add_similarities_args {
    float *y; /* [cols] */
    const int32_t *last;
    lh_key_products of;
} lh_add_similarities_args;

/* y[s] = own * y[s] + other * x[s]. */
typedef struct lh_mix_scores_args {
    float *y;
    const float *x;
    int64_t cols;
    float own, other;
} lh_mix_scores_args;

/* y[h,s] = max over i < group of x[j,s] * sqrt(squares[j,s]), j = h * group + i. x, squares: [heads * group, x_ld]. */
typedef struct lh_largest_outputs_args {
    float *y;
    const float *x, *squares;
    int64_t heads, group, cols, y_ld, x_ld;
} lh_largest_outputs_args;

/* y[h,s] = (x[h,s] + add) * norms of slot s. y: [heads, ld], may be x. */
typedef struct lh_weigh_scores_args {
    float *y;
    const float *x;
    lh_slot_floats norms;
    const int64_t *len; /* [heads] */
    int64_t heads, ld;
    float add;
} lh_weigh_scores_args;

/* y[h,s] *= prior[h,s] / max over the competing entries of head h of prior; y = 0 if that maximum is 0. Entries that do
 * not compete stay unchanged. */
typedef struct lh_apply_prior_args {
    float *y;
    const float *prior;   /* [heads, ld] */
    const uint8_t *state; /* [heads, ld] */
    const int64_t *len;
    int64_t heads, ld;
} lh_apply_prior_args;

/* DefensiveKV (arXiv 2510.13334), over the competing entries of head h: x = max(y[h,s], mean of y) if `raise`, else
 * y[h,s]; y[h,s] = x * n / sum of n, with n the norm of slot s, 0 if that sum is 0; without norms (NULL) y[h,s] = x.
 * Entries that do not compete stay unchanged. Sums are in double, in an unspecified order. */
typedef struct lh_defend_scores_args {
    float *y; /* [heads, ld] */
    lh_slot_floats norms;
    const uint8_t *state; /* [heads, ld] */
    const int64_t *len;
    int64_t heads, ld;
    int raise;
} lh_defend_scores_args;

/* A score of a head with these sums of scores and norms over its `count` competing entries. */
static LH_BOTH inline float lh_defended(float y, float norm, const double sums[2], int64_t count, int raise)
{
    float mean = (float)(sums[0] / (double)count);
    float x = raise && y < mean ? mean : y;
    if (norm < 0) return x;
    return sums[1] > 0 ? x * (float)((double)norm / sums[1]) : 0.0f;
}

/* y[b] = the largest absolute score of the competing entries of all heads of cache b; 0 without any, and NaN counts as
 * 0. */
typedef struct lh_max_score_args {
    float *y;             /* [batch] */
    const float *scores;  /* of cache b: [heads, ld] from b * scores_step on */
    const uint8_t *state; /* [batch, heads, ld] */
    const lh_ragged *kv;  /* [batch], host: lengths; all with the same number of heads */
    int64_t batch, ld, scores_step;
} lh_max_score_args;

/* The factor that turns the scores of `heads` heads, each at most `top`, into integers with a sum that fits in 63
 * bits. */
static LH_BOTH inline double lh_joint_scale(float top, int64_t heads)
{
    return ldexp(1.0, 60 - ilogb(top > 0.0f ? (double)top : 1.0) - ilogb((double)heads) - 2);
}

/* sums[b,s] = sum over the heads of cache b of llrint(scores[b,h,s] * lh_joint_scale(top[b], all_heads)), in double;
 * slots after the end of a head and NaN add 0. Integers, so that ranks may add them in any order. */
typedef struct lh_add_heads_args {
    int64_t *sums;       /* [batch, cols] */
    const float *scores; /* of cache b: [heads, ld] from b * scores_step on */
    const lh_ragged *kv; /* [batch], host: lengths; all with the same number of heads */
    const float *top;    /* [batch] */
    int64_t batch, cols, ld, scores_step, all_heads;
} lh_add_heads_args;

/* y[b,h,s] = (float)(sums[b,s] * factor) for every head, with factor = 1 / lh_joint_scale(top[b], all_heads) /
 * all_heads. */
typedef struct lh_share_scores_args {
    float *y;            /* of cache b: [heads, ld] from b * y_step on */
    const int64_t *sums; /* [batch, cols] */
    const float *top;    /* [batch] */
    int64_t batch, heads, cols, ld, y_step, all_heads;
} lh_share_scores_args;

#endif
