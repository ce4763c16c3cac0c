/* ops_select.h - classes of entries, their order, and the best entries of each head. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_SELECT_H
#define LH_KERNELS_OPS_SELECT_H

#include <stdint.h>
#include <string.h>

#include "base/both.h"
#include "base/fraction.h"
#include "base/minmax.h"
#include "kernels/ops_budgets.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_SELECT(X)                                                   \
    X(classify, "protected, competing and invisible entries")              \
    X(histogram, "histograms of the score keys of heads, one radix round") \
    X(count_best, "entries of each head whose scores reach a threshold")   \
    X(split_counts, "counts of a selection in two stages")                 \
    X(select_top, "mark the highest scores of each head")                  \
    X(order_entries, "order the entries of each head by score")            \
    X(rank_scores, "score entries by a function of their rank in an order")

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

/* Limits that divide the positions of a cache. */
typedef struct lh_position_lines {
    int64_t visible_from, sinks, recent_from;
} lh_position_lines;

/* state[b,h,s] for position p of cache b: DROP if p < visible_from; else KEEP if p < sinks or p >= recent_from; else
 * COMPETES. scores[b,h,s] = number `stat` of the statistics of the entry. */
typedef struct lh_classify_args {
    uint8_t *state;                 /* [batch, heads, ld] */
    float *scores;                  /* [batch, heads, ld], of cache b from b * scores_step on; NULL: not wanted */
    const lh_ragged *kv;            /* [batch], host: all with the same number of heads */
    const lh_position_lines *lines; /* [batch], host */
    int64_t batch, ld, scores_step, stat;
} lh_classify_args;

/* histograms[h,c,b] = number of competing entries of head h of cache c with the prefix of search[c * search_step] in
 * the upper `prefix_bits` bits of their key and b in the next `bits` bits. The histograms of head h begin at h *
 * histograms_ld; they are overwritten. */
typedef struct lh_histogram_args {
    int32_t *histograms;
    const float *scores;     /* of cache c: [heads, ld] from c * scores_step on */
    const uint8_t *state;    /* of cache c: [heads, ld] from c * state_step on */
    const lh_ragged *kv;     /* [batch], host: lengths; all with the same number of heads */
    const lh_search *search; /* NULL: no prefix, prefix_bits is 0 */
    int64_t search_step;     /* 1, or 0: one search for all caches */
    int64_t batch, ld, histograms_ld, scores_step, state_step;
    int prefix_bits, bits;
} lh_histogram_args;

/* counts[h] = number of competing entries of head h with a score key of at least `key`, and `more`; but at least
 * `least`, and at most `most`. */
typedef struct lh_count_best_args {
    int64_t *counts;      /* [heads] */
    const float *scores;  /* [heads, ld] */
    const uint8_t *state; /* [heads, ld] */
    const lh_ragged *kv;  /* lengths */
    int64_t ld, more, least, most;
    uint32_t key;
} lh_count_best_args;

static LH_BOTH inline int64_t lh_count_within(const lh_count_best_args *a, int64_t count)
{
    return lh_min_i64(a->most, lh_max_i64(a->least, count + a->more));
}

/* 1 if slot s of head h is counted, else 0. */
static LH_BOTH inline int lh_is_best(const lh_count_best_args *a, int64_t h, int64_t s)
{
    /* no branch between the loads, so that a device has the loads of several slots under way */
    return (a->state[h * a->ld + s] == LH_ENTRY_COMPETES) & (lh_score_key(a->scores[h * a->ld + s]) >= a->key);
}

/* first[h] = lh_stage_of(stage, counts[h]), rest[h] = counts[h] - first[h]: the counts of the two stages of a
 * selection. */
typedef struct lh_split_counts_args {
    int64_t *first, *rest; /* [heads] */
    const int64_t *counts;
    lh_stage stage;
    int64_t heads;
} lh_split_counts_args;

/* In each head of each cache the counts[b,h] best competing entries become KEEP, and the other competing ones `others`
 * (DROP, or COMPETES for another stage); the rest stays unchanged. Order: lh_score_key of the score descending,
 * position ascending. If fewer than counts[b,h] compete, all of them become KEEP. */
typedef struct lh_select_top_args {
    uint8_t *state;        /* [batch, heads, ld] */
    const float *scores;   /* of cache b: [heads, ld] from b * scores_step on */
    const lh_ragged *kv;   /* [batch], host: positions and lengths; all with the same number of heads */
    const int64_t *counts; /* of cache b: [heads] from b * counts_step on */
    int64_t batch, ld, scores_step, counts_step;
    lh_entry_state others;
} lh_select_top_args;

/* order[h,i], for i < counts[h]: the slot of the i-th entry of head h among the entries in the state `of`, in the order
 * of select_top. */
typedef struct lh_order_entries_args {
    int32_t *order;       /* [heads, ld] */
    int64_t *counts;      /* [heads] */
    const float *scores;  /* [heads, ld]; NULL: all equal */
    const uint8_t *state; /* [heads, ld] */
    const lh_ragged *kv;  /* positions and lengths */
    int64_t ld;
    lh_entry_state of;
} lh_order_entries_args;

/* y[h, order[h,i]], for i < counts[h], = the value at i of the piecewise linear function through the points (ranks[p],
 * v[p]) with v[p] = values[h * values_ld + p]: linear between points, constant before the first and after the last;
 * with `raise` the larger of that and the old y, unless that is NaN. y of slots outside the order stays unchanged. */
typedef struct lh_rank_scores_args {
    float *y;                             /* [heads, ld] */
    const int32_t *order;                 /* [heads, ld] different slots of a head */
    const int64_t *counts;                /* [heads] */
    const float *ranks;                   /* [points] ascending */
    const float *values;                  /* [heads, points] finite; values_ld 0: the same for all heads */
    int64_t heads, ld, points, values_ld; /* points: at least 1 */
    int raise;
} lh_rank_scores_args;

/* ---- rows of histogram and select_top, for every backend: row r is head r % heads of cache r / heads ---- */

typedef struct lh_histogram_row {
    int32_t *bins; /* [2^bits] */
    const float *scores;
    const uint8_t *state;
    int64_t len;
    uint32_t prefix;
} lh_histogram_row;

static LH_BOTH inline lh_histogram_row lh_histogram_row_at(const lh_histogram_args *a, int64_t r)
{
    const int64_t c = r / a->kv->heads, h = r % a->kv->heads;
    lh_histogram_row row;
    row.bins = a->histograms + h * a->histograms_ld + (c << a->bits);
    row.scores = a->scores + c * a->scores_step + h * a->ld;
    row.state = a->state + c * a->state_step + h * a->ld;
    row.len = a->kv[c].len[h];
    row.prefix = a->search ? a->search[c * a->search_step].prefix : 0;
    return row;
}

/* The bin of slot s of a row, or -1. */
static LH_BOTH inline int64_t lh_histogram_bin(const lh_histogram_args *a, const lh_histogram_row *row, int64_t s)
{
    const uint64_t key = lh_score_key(row->scores[s]);
    if (row->state[s] != LH_ENTRY_COMPETES || key >> (32 - a->prefix_bits) != row->prefix) return -1;
    return (int64_t)(key >> (32 - a->prefix_bits - a->bits)) & (((int64_t)1 << a->bits) - 1);
}

/* Scores of row r. */
static LH_BOTH inline const float *lh_row_scores(const lh_select_top_args *a, int64_t r)
{
    return a->scores + r / a->kv->heads * a->scores_step + r % a->kv->heads * a->ld;
}

/* Number of its entries that are kept. */
static LH_BOTH inline int64_t lh_row_count(const lh_select_top_args *a, int64_t r)
{
    return a->counts[r / a->kv->heads * a->counts_step + r % a->kv->heads];
}

#endif
