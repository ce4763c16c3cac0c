/* judge_impl.h - attention of a KV head's reference rows (judge_head.c), and the evaluation of policies by it
 * (judge.c). */
#ifndef LH_LAB_REPLAY_JUDGE_IMPL_H
#define LH_LAB_REPLAY_JUDGE_IMPL_H

#include "lab/replay/replay_impl.h"

/* A KV head in work; n = group * rows reference rows. */
typedef struct lh_judged_head {
    int64_t n, rows, tokens, dim, hidden, after;
    float *q;                           /* [n, dim] */
    float *keys;                        /* [max(tokens, after), dim] */
    float *values;                      /* [tokens, dim] */
    float *weights;                     /* [n, tokens] */
    float *later;                       /* [n]: weights of entries after the prompt */
    float *recent;                      /* [n, after]: each of them */
    float *later_values, *after_values; /* [n, dim], [after, dim]: weighted values, and values of those */
    float *output, *output_l1, *delta, *mass, *lost, *projected_l1;
    float *norms, *later_norm, *largest, *after_norms; /* [group, tokens], [n], [group], [group, after] */
    float *projected;                                  /* [rows, hidden] */
    /* of a policy */
    int64_t *order;                                /* [tokens] entries by class */
    float *columns, *columns_of_values;            /* [n, tokens], [dim, tokens] gathered */
    float *class_output, *class_mass, *class_norm; /* [classes, n, dim], [classes, n], [classes, n] */
    float *kept_norm, *lost_norm;                  /* [n] */
    uint8_t *went;   /* [n, tokens + after] 1: an entry that the row does not see any more */
    int32_t *top_at; /* [n, LH_STUDY_TOP] */
    int64_t top_count;
} lh_judged_head;

/* Of entries, by the budgets at which they are kept. */
enum { LH_JUDGE_CLASSES = 3 * LH_STUDY_BUDGETS };

lh_status lh_judged_head_open(lh_judged_head *w, const lh_replay *r);
void lh_judged_head_close(lh_judged_head *w);

/* Weights, output, norms and most attended entries of KV head g with the full cache; then what has failed is latched.
 */
void lh_judged_head_weigh(lh_judged_head *w, const lh_replay *r, int64_t g);

/* A policy at a budget on the head in work. */
typedef struct lh_judge_cell {
    int64_t cell, head; /* index of r->cells; KV head */
} lh_judge_cell;
typedef struct lh_judge_share {
    double mass, norm; /* norm: weights times norms of projected values */
} lh_judge_share;

/* judge_head.c: the share of row n's attention to entries evicted after the prompt and before row n; their weighted
 * values are subtracted from `values` (may be NULL). And the share of the kept entries, added one by one: if few
 * entries are kept, subtraction would leave rounding errors. */
lh_judge_share lh_judge_evicted(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                                float *values);
lh_judge_share lh_judge_kept(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                             float *values);

/* Of the row's most attended entries, those that have gone. */
int64_t lh_judge_evicted_hits(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n);

/* y [tokens, out] = x [tokens, in] times w [out, in] transposed. */
typedef struct lh_judge_product {
    float *y;
    const float *x, *w;
    int64_t tokens, out, in, y_ld, x_ld, w_ld;
} lh_judge_product;
void lh_judge_multiply(const lh_replay *r, const lh_judge_product *p);

/* The columns of the output projection of query head i of KV head g: [hidden, head_dim] with r->layer.projection.w.ld.
 */
const float *lh_judge_projection(const lh_replay *r, int64_t g, int64_t i);

/* L1 norms of `count` values, projected. */
void lh_judge_norms(lh_judged_head *w, const lh_replay *r, const float *projection, const float *values, int64_t count,
                    float *norms);

#endif
