/* score_rows.h - the rows of histogram and select_top, for every backend: row r is head r % heads of cache r / heads.
 */
#ifndef LH_KERNELS_SCORE_ROWS_H
#define LH_KERNELS_SCORE_ROWS_H

#include "kernels/ops_select.h"

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
    row.prefix = a->search ? a->search[c].prefix : 0;
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

/* How many of its entries stay. */
static LH_BOTH inline int64_t lh_row_count(const lh_select_top_args *a, int64_t r)
{
    return a->counts[r / a->kv->heads * a->counts_step + r % a->kv->heads];
}

#endif
