/* ops.h - the table of operations that a backend fills. An operation takes a stream and one struct, enqueues and does
 * not block. All pointers are device memory unless a comment says host. `ref` is the definition (plain loops, double
 * sums); `cpu` is compared with it on odd sizes. Matrices are row by row; `ld` is the distance of rows in elements.
 * [a, b] shapes list the slowest dimension first. Zero sizes are allowed: without an output nothing is done, and a sum
 * over nothing is 0 (gemm with in = 0 gives the bias, column_stats without rows adds nothing). Of arrays [heads, ld]
 * over the entries of a cache the slots at len[h] and behind are not read, and what is left in them is unspecified.
 *
 * Bits: with LH_ORDER_FIXED (and in every operation but gemm and attend_block always) the bits of an output row depend
 * on its own inputs only, not on how many rows, heads, threads or ranks there are. */
#ifndef LH_KERNELS_OPS_H
#define LH_KERNELS_OPS_H

#include <math.h>
#include <stdint.h>

#include "base/both.h"
#include "base/dtype.h"
#include "base/fraction.h"
#include "base/status.h"
#include "device/device.h"
#include "kernels/probabilities.h"
#include "kernels/ragged.h"

/* y[t,:] = scale * table[ids[t] - first, :] when first <= ids[t] < first + rows, else 0. y: [tokens, dim]. */
typedef struct lh_embed_args {
    float *y;
    const void *table; /* [rows, dim] of type: f32 or bf16 */
    lh_dtype type;
    const int32_t *ids;
    int64_t tokens, dim, first, rows;
    float scale;
} lh_embed_args;

/* y[t,h,i] = x[t,h,i] / sqrt(mean_i(x[t,h,:]^2) + eps) * (offset + w[i]). x: row t, head h starts at
 * t * x_ld + h * dim; y alike with y_ld; may alias when y_type is f32. heads = 1 for a norm of whole rows. */
typedef struct lh_rmsnorm_args {
    void *y;
    lh_dtype y_type; /* f32 or bf16 */
    const float *x, *w;
    int64_t tokens, heads, dim, x_ld, y_ld;
    float eps, offset;
} lh_rmsnorm_args;

/* y[t,o] = sum_i x[t,i] * w[o,i] + bias[o]. x: [tokens, in], w: [out, in], y: [tokens, out]; bias may be NULL.
 * Products and sums in f32 at least. x and w are both f32 or both bf16. LH_ORDER_FIXED: one fused multiply-add chain in
 * f32 from 0 over i = 0, 1, … , then the bias is added: the same bits on every backend. */
typedef enum lh_order { LH_ORDER_ANY, LH_ORDER_FIXED } lh_order;
typedef struct lh_gemm_args {
    float *y;
    const void *x, *w;
    lh_dtype type; /* of x and w */
    const float *bias;
    int64_t tokens, out, in, y_ld, x_ld, w_ld;
    lh_order order;
} lh_gemm_args;

/* dst[r,i] = src[r,i], between f32 and bf16 (either way, or equal). */
typedef struct lh_convert_args {
    void *dst;
    const void *src;
    lh_dtype dst_type, src_type;
    int64_t rows, cols, dst_ld, src_ld;
} lh_convert_args;

/* In place, the halves of the first `rotary` dimensions as pairs (Hugging Face's rotate_half): with a =
 * f32(positions[t]) * inv_freq[i] in f32, c = cos(a) * scale, s = sin(a) * scale:
 * x[i], x[i + rotary/2] = x[i] * c - x[i + rotary/2] * s, x[i + rotary/2] * c + x[i] * s.
 * x: row t, head h starts at t * ld + h * dim. */
typedef struct lh_rope_args {
    float *x;
    const int32_t *positions; /* [tokens] */
    const float *inv_freq;    /* [rotary / 2] */
    int64_t tokens, heads, dim, rotary, ld;
    float scale;
} lh_rope_args;

/* Append `tokens` entries to every head of every sequence at slot offset[h] + len[h] and raise len. k, v: sequence b,
 * token t, head h starts at (b * tokens + t) * ld + h * head_dim. positions: [batch * tokens], stored where the cache
 * has positions; statistics begin with 0. The caller has left room. */
typedef struct lh_append_args {
    lh_ragged *seqs; /* [batch], host */
    int64_t batch, tokens, ld;
    const float *k, *v;
    const int32_t *positions;
} lh_append_args;

/* Rows at positions that follow each other go where they belong in a ring of `rows` rows, of which the first `head` are
 * of the first positions: ring[p] for p < head, else ring[head + (p - head) % (rows - head)]. Of several rows that
 * belong to one place the last one stays. Row t of x starts at t * x_ld. */
typedef struct lh_put_rows_args {
    float *ring; /* [rows, width] */
    const float *x;
    const int32_t *positions; /* [tokens] */
    int64_t tokens, rows, head, width, x_ld;
} lh_put_rows_args;

/* Where the row at position p belongs. */
static LH_BOTH inline int64_t lh_ring_place(int64_t p, int64_t rows, int64_t head)
{
    return p < head ? p : head + (p - head) % (rows - head);
}

/* Softmax attention of a block of rows that are already in the cache: the last `tokens` entries of every head are the
 * rows' own, in order, so row t of head h sees slots 0 .. len[h] - tokens + t, as far as the window allows.
 * o[t,i,:] = sum_j a_tj v_j; lse[t,i] = log sum_j exp(s_tj) (NULL: not wanted); a row that sees nothing: o = 0, lse =
 * -inf; one that sees a key of which the logit is NaN: NaN. Over a bf16 cache a backend may round q and the weights to
 * bf16, as the units of a processor that multiply bf16 want them, and with LH_ORDER_ANY o, too; then the bits may
 * depend on how many heads and rows there are, and a backend may choose the way by `most`. q, o: row t, head i starts
 * at t * ld + i * head_dim. */
typedef struct lh_attend_block_args {
    float *o;
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

/* One row a sequence over all entries it may see; o and lse as in attend_block. q, o: sequence b, head i starts at
 * b * ld + i * head_dim; lse: [batch, heads] or NULL. Slots are in no particular order. logits: [batch * heads, ld],
 * where they are wanted. */
typedef struct lh_attend_decode_args {
    float *o, *lse;
    lh_row_logits logits;
    const float *q;
    const int32_t *positions; /* [batch] of the rows */
    const lh_ragged *seqs;    /* [batch], host */
    int64_t batch, q_ld, o_ld;
    lh_grouping map;
    lh_logit logit;
} lh_attend_decode_args;

/* y[t,i] = f(gate[t,i]) * up[t,i]; f: silu, gelu with tanh, or exact gelu. y may be bf16. */
typedef enum lh_gate { LH_GATE_SILU, LH_GATE_GELU_TANH, LH_GATE_GELU } lh_gate;
typedef struct lh_gated_args {
    void *y;
    lh_dtype y_type;
    const float *gate, *up;
    int64_t tokens, dim, y_ld, ld;
    lh_gate gate_kind;
} lh_gated_args;

/* y[t,i] += x[t,i]. x_ld 0 adds one row to all. */
typedef struct lh_add_args {
    float *y;
    const float *x;
    int64_t tokens, dim, y_ld, x_ld;
} lh_add_args;

/* y[n] = parts[0][n] + parts[1][n] + … in this order, f32. parts: [shards, count]; y must not alias them. */
typedef struct lh_sum_shards_args {
    float *y;
    const float *parts;
    int64_t shards, count;
} lh_sum_shards_args;

/* x[i] = cap * tanh(x[i] / cap). */
typedef struct lh_softcap_args {
    float *x;
    int64_t count;
    float cap;
} lh_softcap_args;

/* The k largest of each row, sorted by (value descending, index ascending), k <= cols. NaN sorts last. */
typedef struct lh_top_logits_args {
    float *values;    /* [rows, k] */
    int32_t *indices; /* [rows, k] */
    const float *x;
    int64_t rows, cols, ld, k;
} lh_top_logits_args;

/* y[i] = x[i] where bit i % 32 of seen[i / 32] is 0, else what a repeat penalty makes of it. y is not x. */
typedef struct lh_penalise_args {
    float *y;
    const float *x;
    const uint32_t *seen; /* [count / 32, rounded up] */
    int64_t count;
    double penalty;
} lh_penalise_args;

static LH_BOTH inline float lh_penalised(float x, double penalty)
{
    return (float)(x > 0.0f ? (double)x / penalty : (double)x * penalty);
}

/* *sum = sum of lh_probability(&by, x[i]). */
typedef struct lh_sum_probabilities_args {
    int64_t *sum;
    const float *x;
    int64_t count;
    lh_probabilities by;
} lh_sum_probabilities_args;

/* Query rows that look at a cache. Row r is at positions[r] and sees the entries at positions <= until[r] (NULL:
 * positions[r]), with a window > 0 only those > positions[r] - window. Its logit of an entry is gains[r] (NULL: 1)
 * times what `logit` says, s_rj. q: row r, head i starts at r * q_ld + i * head_dim. The logits of a single row may be
 * given to column_stats, which saves working them out: as attend_decode left them, before any gain. */
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

/* lse[r,i] = log sum over the entries that row r sees of exp(s_rj); -inf where it sees none. */
typedef struct lh_row_lse_args {
    float *lse; /* [rows, heads] */
    lh_observed rows;
} lh_row_lse_args;

/* What the slots in [first, first + cols) of every KV head receive from the rows, added to what is there; slots at len
 * and behind are left alone. The map begins and ends with whole groups. With a_i = exp(s_rj - lse[r,i]) where row r
 * sees j, else 0, for query head i of the group, and m = mean of a_i over the group: sums[c] += sum over rows of m
 * (parts = 1), or of a_c for every c of the group (parts = group); squares += sum over rows of m * m; counts += number
 * of rows with m > 1 / n, n = entries of the head that the row sees. What is not wanted is NULL. Rows are added in
 * order, first among themselves and then to what is there. A row whose lse is -inf adds nothing. Over a bf16 cache a
 * backend may round q to bf16, as attend_block does. lse NULL: rows = 1, and the log-sum-exps of the row over all
 * entries that it sees are worked out here; what is left in `own` is unspecified. */
typedef struct lh_column_stats_args {
    lh_slot_floats sums, squares, counts;
    lh_observed rows;
    const float *lse; /* [rows, heads] with lse_ld, or NULL */
    float *own;       /* [heads], where lse is NULL */
    int64_t lse_ld, parts, first, cols;
} lh_column_stats_args;

/* y[h * parts + c, s] from the numbers x_c of an entry, n = its visits: rows among those at positions first_row .. seen
 * - 1 that saw it, and `more` other rows that saw every entry: n = max(0, min(seen, p + window) - max(p, first_row))
 * + more at position p (seen alone without a window). PLAIN: factor * x; PER_VISIT: factor * x / n, 0 where n <= 0;
 * DEVIATION: sqrt(max(0, squares / n - (x / n)^2)), 0 where n <= 1. */
typedef enum lh_finish_kind { LH_FINISH_PLAIN, LH_FINISH_PER_VISIT, LH_FINISH_DEVIATION } lh_finish_kind;
typedef struct lh_finish_scores_args {
    float *y; /* [heads * parts, ld] */
    lh_slot_floats x, squares;
    const lh_ragged *kv;
    int64_t ld, parts, first_row, seen, window, more;
    lh_finish_kind kind;
    float factor;
} lh_finish_scores_args;

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

/* Pool over the competing entries of a row in the order of their positions, gaps ignored: with c_0, c_1, … the
 * competing entries, y[c_n] = max (padding -inf) or sum / k (zero padding) of x[c_m], |m - n| <= (k - 1) / 2; without a
 * kind y[c_n] = x[c_n]. Others: y = 0. k odd, and may be longer than the row. Row r belongs to KV head r /
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

/* The slot from which on a head of `len` entries holds the last `last` of them. */
#define LH_ALL_ENTRIES INT64_MAX
static LH_BOTH inline int64_t lh_slot_of_last(int64_t len, int64_t last)
{
    return len > last ? len - last : 0;
}

/* y of the last `last` slots of every head = ||x||_2 (L2), its square (SQUARE) or its negative (MINUS_L2), x the
 * key or the value of the entry. */
typedef enum lh_entry_part { LH_PART_KEY, LH_PART_VALUE } lh_entry_part;
typedef enum lh_norm_kind { LH_NORM_L2, LH_NORM_SQUARE, LH_NORM_MINUS_L2 } lh_norm_kind;
typedef struct lh_entry_norms_args {
    lh_slot_floats y;
    const lh_ragged *kv;
    int64_t last;
    lh_entry_part part;
    lh_norm_kind kind;
} lh_entry_norms_args;

/* y[i,n] = sum over o < out of |sum over d of v[d] * w[o, i * head_dim + d]|, v the n-th value of the last `last`
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

/* y of the n-th of the last `last` slots of head h = x[h,n]. x: [heads, ld]. */
typedef struct lh_put_stats_args {
    lh_slot_floats y;
    const float *x;
    const lh_ragged *kv;
    int64_t last, ld;
} lh_put_stats_args;

/* y[h,s] = (x[h,s] + add) * norms of slot s. y: [heads, ld], may be x. */
typedef struct lh_weigh_scores_args {
    float *y;
    const float *x;
    lh_slot_floats norms;
    const int64_t *len; /* [heads] */
    int64_t heads, ld;
    float add;
} lh_weigh_scores_args;

/* y[h,s] *= prior[h,s] / max over the competing entries of head h of prior; where that is 0, y = 0. Entries that do not
 * compete are left alone. */
typedef struct lh_apply_prior_args {
    float *y;
    const float *prior;   /* [heads, ld] */
    const uint8_t *state; /* [heads, ld] */
    const int64_t *len;
    int64_t heads, ld;
} lh_apply_prior_args;

/* y[h,s] = a number in [0, 1) that depends on the key, on `counter` (layer and eviction, as the caller counts them), on
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
 * 1 gives +inf): the k largest are a sample without replacement with probabilities softmax(x / temperature). */
typedef struct lh_gumbel_scores_args {
    float *y;
    const float *x;
    const lh_ragged *kv;
    int64_t ld;
    float temperature;
    lh_draw draw;
} lh_gumbel_scores_args;

/* sums[i, a] += sum over rows of x[r, i, a], products[i, a, b] += sum over rows of x[r, i, a] * x[r, i, b]. Rows are
 * added in order, first among themselves. */
typedef struct lh_row_moments_args {
    double *sums;     /* [heads, dim]; NULL: not wanted */
    double *products; /* [heads, dim, dim] */
    const void *x;    /* row r, head i starts at r * x_ld + i * dim */
    lh_dtype type;    /* of x: f32 or bf16 */
    int64_t rows, heads, dim, x_ld;
} lh_row_moments_args;

/* y[i, s] = softmax over the competing entries of query head i's KV head of scale * m.k + scale^2 / 2 * k'Ck, the
 * logarithm of what exp(scale * q.k) is on average where q is of mean m and covariance C (expected attention, arXiv
 * 2510.00636, eq. 6); 0 for the others. The map begins and ends with whole groups. y: [heads, ld]. */
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

/* y[h,s] = -cos(k_s, mean over the entries of head h of k / ||k||) (KeyDiff, arXiv 2504.15364); norms are taken as 1e-8
 * at least. */
typedef struct lh_key_difference_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
} lh_key_difference_args;

/* *y = the largest absolute score of the competing entries of all heads; 0 without any, and NaN counts as 0. */
typedef struct lh_max_score_args {
    float *y;
    const float *scores;  /* [heads, ld] */
    const uint8_t *state; /* [heads, ld] */
    const int64_t *len;
    int64_t heads, ld;
} lh_max_score_args;

/* What joins the scores of `heads` heads that are at most `top`: as many bits as the sum of all of them has room for.
 */
static LH_BOTH inline double lh_joint_scale(float top, int64_t heads)
{
    return ldexp(1.0, 60 - ilogb(top > 0.0f ? (double)top : 1.0) - ilogb((double)heads) - 2);
}

/* sums[s] = sum over heads of llrint(scores[h,s] * lh_joint_scale(*top, all_heads)), in double; slots at len[h] and
 * behind add 0, NaN adds 0. Whole numbers, so that ranks may add them in any order. sums: [cols]. */
typedef struct lh_add_heads_args {
    int64_t *sums;
    const float *scores;
    const int64_t *len;
    const float *top;
    int64_t heads, cols, ld, all_heads;
} lh_add_heads_args;

/* y[h,s] = (float)(sums[s] * factor) for every head, with factor = 1 / lh_joint_scale(*top, all_heads) / all_heads. */
typedef struct lh_share_scores_args {
    float *y;
    const int64_t *sums;
    const float *top;
    int64_t heads, cols, ld, all_heads;
} lh_share_scores_args;

/* y[h,s] = position of the entry in slot s of head h, as float. y: [heads, ld]. */
typedef struct lh_position_scores_args {
    float *y;
    const lh_ragged *kv;
    int64_t ld;
} lh_position_scores_args;

/* state[h,s] for position p: DROP where p < visible_from; else KEEP where p < sinks or p >= recent_from; else COMPETES.
 * state: [heads, ld]. */
typedef struct lh_classify_args {
    uint8_t *state;
    const lh_ragged *kv;
    int64_t ld, visible_from, sinks, recent_from;
} lh_classify_args;

/* The order-preserving integer image of a score: key(x) < key(y) exactly when x < y; -0 and 0 share the key of 0. NaN
 * comes below every number: its key is 0. */
static LH_BOTH inline uint32_t lh_score_key(float x)
{
    uint32_t u;
    if (x != x) return 0;
    x += 0.0f;
    memcpy(&u, &x, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* ---- the best of many heads ----
 * A search for the best competing entries of many heads, which may lie on several ranks and in several layers, all in
 * device memory: three rounds of 11, 11 and 10 bits. In each of them every rank makes the histograms of its heads and
 * adds them up (add_histograms), the ranks add their sums, and each of them finds the bin in which the last of the best
 * lies (refine_threshold). Then the ranks tell each other their heads' candidates, and head_budgets says what every
 * head of all ranks keeps. The heads of a layer are a layer: arrays [heads, layers] have the layers of a head side by
 * side. Of all heads of all ranks together less than 2^31 entries compete. */

/* What a search knows after a round. */
typedef struct lh_search {
    int64_t want;    /* of the best, how many have this prefix */
    uint32_t prefix; /* the upper bits of the key of the last of them */
} lh_search;

/* What is known of a head: how many of its entries compete, and how many of them are above the prefix and at it. */
typedef struct lh_candidate_counts {
    int32_t competing, above, at;
} lh_candidate_counts;

/* What the heads of a layer have whatever their scores are. floor: their best so many entries, which do not compete
 * with those of other heads. sure: so many more than their share of the best. */
typedef struct lh_head_safeguard {
    int64_t floor, bonus;
} lh_head_safeguard;

/* histograms[h,b] = number of competing entries of head h whose key has search->prefix in its upper `prefix_bits` bits
 * and b in the next `bits` bits. histograms: [heads, 2^bits], of head h from h * histograms_ld on, overwritten. */
typedef struct lh_histogram_args {
    int32_t *histograms;
    const float *scores;     /* [heads, ld] */
    const uint8_t *state;    /* [heads, ld] */
    const int64_t *len;      /* [heads] */
    const lh_search *search; /* NULL: no prefix, prefix_bits is 0 */
    int64_t heads, ld, histograms_ld;
    int prefix_bits, bits;
} lh_histogram_args;

/* sums[b] = sum over heads and layers of histograms[h,l,b], but each leaves out its best floor - candidates[h,l].above
 * entries (none where that is less than 0); sums[2^bits] = how many were left out. sums: [2^bits + 1]. */
typedef struct lh_add_histograms_args {
    int32_t *sums;
    const int32_t *histograms;             /* [heads, layers, 2^bits] */
    const lh_candidate_counts *candidates; /* [heads, layers]; NULL in the first round: nothing is above */
    const lh_head_safeguard *safeguards;   /* [layers], NULL: `safeguard` for all */
    lh_head_safeguard safeguard;
    int64_t heads, layers;
    int bits;
} lh_add_histograms_args;

/* With sums of all ranks: the bin, from the last one down, in which the from->want best are complete (0 where there are
 * fewer). It goes to the end of to->prefix, and to->want is from->want without what is above it. In the first round,
 * `from` NULL, the wanted ones are those that are not left out of the `most` best, or of all entries where there are
 * fewer. candidates[h,l]: above += what is above the bin, at = what is in it; competing is set in the first round.
 * `from` and `to` are not the same. */
typedef struct lh_refine_threshold_args {
    lh_search *to;
    const lh_search *from;
    lh_candidate_counts *candidates; /* [heads, layers] */
    const int32_t *histograms;       /* [heads, layers, 2^bits] */
    const int32_t *sums;             /* [2^bits + 1] */
    int64_t heads, layers, most;
    int bits;
} lh_refine_threshold_args;

/* What heads keep of their competing entries, with what refine_threshold has found in the last round. Chosen are those
 * above the prefix, and of those at it search->want, the first ones by layer and then by head; but those that are a
 * head's already are no choice: g = min(floor, competing) of the best. counts = min(g + floor(chosen * share) + sure,
 * competing). While these sum to less than `most` (and than all entries), one more goes to the head that has not all of
 * its entries and for which g + chosen * share + sure - counts is largest, ties by layer and then by head. With a share
 * of 1 - alpha and alpha * base to be sure of: AdaKV's safeguard (arXiv 2407.11550, algorithm 1), in whole numbers. */
typedef struct lh_head_budgets_args {
    int64_t *counts;                       /* [heads, layers] */
    const lh_candidate_counts *candidates; /* [heads, layers] */
    const lh_search *search;
    const lh_head_safeguard *safeguards; /* [layers], NULL: `safeguard` for all */
    lh_head_safeguard safeguard;
    lh_fraction share; /* at most 1 */
    int64_t heads, layers, most;
} lh_head_budgets_args;

/* first[h] = lh_stage_of(stage, counts[h]), rest[h] = counts[h] - first[h]: what two stages of a selection take. */
typedef struct lh_split_counts_args {
    int64_t *first, *rest; /* [heads] */
    const int64_t *counts;
    lh_stage stage;
    int64_t heads;
} lh_split_counts_args;

/* In each head the counts[h] best competing entries become KEEP, the other competing ones `others` (DROP, or COMPETES
 * for another stage), and what does not compete stays what it is; order: lh_score_key of the score descending, position
 * ascending. Where less than counts[h] compete all of them stay. */
typedef struct lh_select_top_args {
    uint8_t *state; /* [heads, ld] */
    const float *scores;
    const lh_ragged *kv;   /* positions and lengths */
    const int64_t *counts; /* [heads] */
    int64_t ld;
    lh_entry_state others;
} lh_select_top_args;

/* Move the entries that are KEEP to the front of their head in dst and set dst's len; positions go with them (dst has
 * positions), and statistics where dst has them (then src has as many). dst may be src's pools with offsets <= src's,
 * ascending over the heads: then in place, and dst's len may be src's. Otherwise nothing of dst lies in src. IN_ORDER
 * keeps the order of slots; FILL (in place with equal offsets only) fills the holes, first to last, each with the last
 * kept entry not yet moved, moving as few as there are holes.
 */
typedef enum lh_compact_kind { LH_COMPACT_IN_ORDER, LH_COMPACT_FILL } lh_compact_kind;
typedef struct lh_compact_args {
    const lh_ragged *dst, *src;
    const uint8_t *state; /* [heads, ld] */
    int64_t ld;
    lh_compact_kind kind;
} lh_compact_args;

typedef struct lh_ops {
    const char *name; /* of the backend */
    lh_device_kind device;
#define LH_OP(op, summary) lh_status (*op)(lh_stream * stream, const lh_##op##_args *args);
#include "kernels/ops_list.h"
#undef LH_OP
} lh_ops;

extern const lh_ops lh_ops_ref;
extern const lh_ops lh_ops_cpu __attribute__((weak));  /* at NULL in tests that do without */
extern const lh_ops lh_ops_cuda __attribute__((weak)); /* at NULL in a build without CUDA */

/* Backends by name ("ref", "cpu", "cuda"), NULL when there is none; by number, NULL behind the last. */
const lh_ops *lh_ops_find(const char *name);
const lh_ops *lh_ops_at(int i);

/* Names and summaries of the operations, by number; NULL behind the last. */
const char *lh_op_name(int i);
const char *lh_op_summary(int i);

/* LH_EINTERNAL naming the first operation that a table lacks. */
lh_status lh_ops_check(const lh_ops *ops);

/* The chunks in which a prompt goes through a layer, as operations on a kind of device like them, and the workspace
 * that they take for themselves. Known of every kind in every build. */
typedef struct lh_chunking {
    int64_t most;                      /* tokens: products of longer ones are no faster */
    int64_t query_bytes;               /* of attend_block: for each number of a chunk's queries */
    int64_t input_bytes, input_tokens; /* of gemm in f32: for each number of its input, of at most so many tokens */
    int64_t fixed_bytes;               /* of gemm, beside */
} lh_chunking;
const lh_chunking *lh_ops_chunking(lh_device_kind kind);

/* Instruction set that `cpu` uses here ("amx-bf16", "avx512-bf16", "avx512", "avx2", "generic"), and the library behind
 * gemm of a type. */
const char *lh_cpu_isa(void);
const char *lh_cpu_gemm_library(lh_dtype type);

/* cuDNN, which the cuda backend uses for some of attend_block: attend_block by it alone, LH_EUSAGE where the library is
 * missing or does not take the case; and 1 where it is there, text: its version, or 0, text: what is missing. At NULL
 * in a build without CUDA. */
lh_status lh_cudnn_attend_block(lh_stream *stream, const lh_attend_block_args *a) __attribute__((weak));
int lh_cudnn_found(char text[256]) __attribute__((weak));

#endif
