/* ops_attend.h - softmax attention over ragged caches. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_ATTEND_H
#define LH_KERNELS_OPS_ATTEND_H

#include <stdint.h>

#include "kernels/ops_model.h"
#include "kernels/ragged.h"

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

#endif
