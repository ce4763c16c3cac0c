/* ops_attend.h - softmax attention over ragged caches, and statistics of attention: the attention that entries receive
 * from observed query rows. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_ATTEND_H
#define LH_KERNELS_OPS_ATTEND_H

#include <stdint.h>

#include "kernels/ops_model.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_ATTEND(X)                                                       \
    X(attend_block, "causal attention of a block of rows over a ragged cache") \
    X(attend_decode, "attention of one row a sequence, over a batch of ragged caches")

/* Softmax attention of a block of rows whose entries are already in the cache: they are the last `tokens` entries of
 * every head, in order, so row t of head h sees slots 0 .. len[h] - tokens + t within the window. o[t,i,:] = sum_j a_tj
 * v_j; lse[t,i] = log sum_j exp(s_tj + b_j) (may be NULL). A row that sees nothing: o = 0, lse = -inf; a row that sees
 * a logit of NaN: NaN. Over a cache of bf16 or q8 a backend may round q and the weights to bf16, for bf16 matrix units.
 * With LH_ORDER_ANY the bits may depend on the number of heads and rows, and a backend may choose the algorithm by
 * `most`. q, o, o_bf16: row t, head i starts at t * ld + i * head_dim. o_bf16: NULL, or o rounded; then o is workspace
 * with unspecified contents, unless keeps_o. */
typedef struct lh_attend_block_args {
    float *o;
    void *o_bf16;
    int keeps_o;
    float *lse; /* [tokens, heads] */
    const float *q;
    const int32_t *positions; /* [tokens] positions of the rows, for the window */
    const lh_ragged *kv;      /* one sequence */
    lh_grouping map;
    lh_logit logit;
    int64_t tokens, q_ld, o_ld;
    int64_t most; /* upper bound of the entries of a head; 0: unknown */
    lh_order order;
} lh_attend_block_args;

/* One row per sequence over all entries that it sees; o, o_bf16 and lse as in attend_block. q, o: sequence b, head i
 * starts at b * ld + i * head_dim; lse: [batch, heads] or NULL. Slots are in no particular order. logits: NULL, or for
 * each sequence an array that receives the logits of its row. With LH_ORDER_ANY the bits may depend on the other
 * sequences and heads.
 *
 * fresh: entries that append stored in every head with leaves_len; len is raised by them first. A backend may read
 * lengths and older entries before earlier operations have ended: if one of them has written these, something was
 * copied on the stream since. */
typedef struct lh_attend_decode_args {
    float *o, *lse;
    void *o_bf16;
    int keeps_o;
    const lh_row_logits *logits; /* [batch], host */
    const float *q;
    const int32_t *positions; /* [batch] positions of the rows */
    const lh_ragged *seqs;    /* [batch], host */
    int64_t batch, q_ld, o_ld;
    int64_t fresh;
    lh_grouping map;
    lh_logit logit;
    lh_order order;
} lh_attend_decode_args;

/* X(operation, summary) of this family. */
#define LH_OPS_OBSERVE(X)                                                  \
    X(row_lse, "log-sum-exp of query rows over the entries that they see") \
    X(column_stats, "attention that entries receive from query rows: sums, squares, counts")

/* Observed query rows. Row r is at positions[r] and sees the entries at positions <= until[r] (NULL: positions[r]),
 * with a window > 0 only those > positions[r] - window. Its logit of an entry is s_rj = gains[r] (NULL: 1) times the
 * value of `logit`, plus the entry's bias. q: row r, head i starts at r * q_ld + i * head_dim. column_stats may be
 * given the logits of a single row that attend_decode wrote, before gain and bias, instead of computing them again. */
typedef struct lh_observed {
    const float *q;
    lh_row_logits logits;             /* [heads], logits of a single row */
    const int32_t *positions, *until; /* [rows] */
    const float *gains;               /* [rows] */
    const lh_ragged *kv;
    lh_grouping map;
    lh_logit logit;
    int64_t rows, q_ld;
} lh_observed;

/* Positions that a row sees: (before, last]. Positions of entries are not negative. */
typedef struct lh_visible_range {
    int32_t before, last;
} lh_visible_range;

static LH_BOTH inline lh_visible_range lh_visible_range_of(const int32_t *positions, const int32_t *until,
                                                           int64_t window, int64_t r)
{
    int64_t before = window > 0 ? positions[r] - window : -1;
    lh_visible_range visible = {before < -1 ? -1 : (int32_t)before, until ? until[r] : positions[r]};
    return visible;
}

static LH_BOTH inline int lh_sees(lh_visible_range visible, int32_t position)
{
    return position > visible.before && position <= visible.last;
}

/* lse[r,i] = log sum over the entries that row r sees of exp(s_rj); -inf where it sees none. */
typedef struct lh_row_lse_args {
    float *lse; /* [rows, heads] */
    lh_observed rows;
} lh_row_lse_args;

/* Adds the attention that the slots in [first, first + cols) of every KV head receive from the rows; slots from len on
 * stay unchanged. The map begins and ends with whole groups. With a_i = exp(s_rj - lse[r,i]) if row r sees j, else 0,
 * for query head i of the group, m = mean of a_i over the group, and n = entries of the head that the row sees: sums[c]
 * += sum over rows of m (parts = 1), or of a_c for every c of the group (parts = group); squares += sum over rows of m
 * * m; largest = max(largest, m); counts += number of rows with m > 1 / n. each_head (parts = 1, no counts): squares
 * and largest use every a_i instead of m. Outputs may be NULL. Rows are summed in order, then added to the old
 * contents. A row with an lse of -inf adds nothing. Over a bf16 cache a backend may round q to bf16, as attend_block
 * does. lse NULL: rows = 1, and the log-sum-exps of the row over all entries that it sees are computed here, with `own`
 * as workspace. */
typedef struct lh_column_stats_args {
    lh_slot_floats sums, squares, largest, counts;
    lh_observed rows;
    const float *lse; /* [rows, heads] with lse_ld, or NULL */
    float *own;       /* [heads] workspace if lse is NULL */
    int64_t lse_ld, parts, first, cols;
    int each_head;
} lh_column_stats_args;

#endif
