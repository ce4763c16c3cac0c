/* ops_attend.h - softmax attention over ragged caches. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_ATTEND_H
#define LH_KERNELS_OPS_ATTEND_H

#include <stdint.h>

#include "kernels/ops_model.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_ATTEND(X)                                                       \
    X(attend_block, "causal attention of a block of rows over a ragged cache") \
    X(attend_decode, "attention of one row a sequence, over a batch of ragged caches")

/* Softmax attention of a block of rows that are already in the cache: the last `tokens` entries of every head are the
 * rows' own, in order, so row t of head h sees slots 0 .. len[h] - tokens + t, as far as the window allows.
 * o[t,i,:] = sum_j a_tj v_j; lse[t,i] = log sum_j exp(s_tj + b_j) (NULL: not wanted); a row that sees nothing: o = 0,
 * lse = -inf; one that sees a key of which the logit is NaN: NaN. Over a bf16 cache a backend may round q and the
 * weights to bf16, as the units of a processor that multiply bf16 want them, and with LH_ORDER_ANY o, too; then the
 * bits may depend on how many heads and rows there are, and a backend may choose the way by `most`. q, o, o_bf16: row
 * t, head i starts at t * ld + i * head_dim. o_bf16: NULL, or o rounded; then o is workspace where anything may be
 * left, unless keeps_o. */
typedef struct lh_attend_block_args {
    float *o;
    void *o_bf16;
    int keeps_o;
    float *lse; /* [tokens, heads] */
    const float *q;
    const int32_t *positions; /* [tokens] of the rows, for the window */
    const lh_ragged *kv;      /* one sequence */
    lh_grouping map;
    lh_logit logit;
    int64_t tokens, q_ld, o_ld;
    int64_t most; /* no head has more entries; 0: not known */
    lh_order order;
} lh_attend_block_args;

/* One row a sequence over all entries it may see; o, o_bf16 and lse as in attend_block. q, o: sequence b, head i starts
 * at b * ld + i * head_dim; lse: [batch, heads] or NULL. Slots are in no particular order. logits: NULL, or for each
 * sequence where those of its row are wanted. With LH_ORDER_ANY the bits may depend on how many sequences and heads
 * there are. */
typedef struct lh_attend_decode_args {
    float *o, *lse;
    void *o_bf16;
    int keeps_o;
    const lh_row_logits *logits; /* [batch], host */
    const float *q;
    const int32_t *positions; /* [batch] of the rows */
    const lh_ragged *seqs;    /* [batch], host */
    int64_t batch, q_ld, o_ld;
    lh_grouping map;
    lh_logit logit;
    lh_order order;
} lh_attend_decode_args;

/* X(operation, summary) of this family. */
#define LH_OPS_OBSERVE(X)                                                  \
    X(row_lse, "log-sum-exp of query rows over the entries that they see") \
    X(column_stats, "attention that entries receive from query rows: sums, squares, counts")

/* Query rows that look at a cache. Row r is at positions[r] and sees the entries at positions <= until[r] (NULL:
 * positions[r]), with a window > 0 only those > positions[r] - window. Its logit of an entry, s_rj, is gains[r] (NULL:
 * 1) times what `logit` says, plus the entry's bias. q: row r, head i starts at r * q_ld + i * head_dim. The logits of
 * a single row may be given to column_stats, which saves working them out: as attend_decode left them, before any gain
 * and bias. */
typedef struct lh_observed {
    const float *q;
    lh_row_logits logits;             /* [heads], of a single row */
    const int32_t *positions, *until; /* [rows] */
    const float *gains;               /* [rows] */
    const lh_ragged *kv;
    lh_grouping map;
    lh_logit logit;
    int64_t rows, q_ld;
} lh_observed;

/* Positions that a row sees: those in (before, last]. Positions of entries are not negative. */
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

/* Attention that the slots in [first, first + cols) of every KV head receive from the rows, added to what is there;
 * slots at len and after it are left alone. The map begins and ends with whole groups. With a_i = exp(s_rj - lse[r,i])
 * where row r sees j, else 0, for query head i of the group, and m = mean of a_i over the group: sums[c] += sum over
 * rows of m (parts = 1), or of a_c for every c of the group (parts = group); squares += sum over rows of m * m; largest
 * = the largest m, or what is there; counts += number of rows with m > 1 / n, n = entries of the head that the row
 * sees. each_head (parts = 1, no counts): squares and largest are of every a_i in place of m. What is not wanted is
 * NULL. Rows are added in order, first among themselves and then to what is there. A row whose lse is -inf adds
 * nothing. Over a bf16 cache a backend may round q to bf16, as attend_block does. lse NULL: rows = 1, and the
 * log-sum-exps of the row over all entries that it sees are worked out here; what is left in `own` is unspecified. */
typedef struct lh_column_stats_args {
    lh_slot_floats sums, squares, largest, counts;
    lh_observed rows;
    const float *lse; /* [rows, heads] with lse_ld, or NULL */
    float *own;       /* [heads], where lse is NULL */
    int64_t lse_ld, parts, first, cols;
    int each_head;
} lh_column_stats_args;

#endif
