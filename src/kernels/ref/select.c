/* The best competing entries of each head; orders, histograms, budgets. */
#include "kernels/head_budgets.h"
#include "kernels/ops_select.h"
#include "kernels/ref/ref.h"

/* Competing entries of a row that come before or at (key, position) in the order of select_top. */
static int64_t count_until(const lh_select_top_args *a, int64_t row, uint32_t key, int64_t position)
{
    int64_t h, count = 0;
    const lh_ragged *kv = lh_cache_of_row(a->kv, row, &h);
    const float *scores = lh_row_scores(a, row);
    for (int64_t s = 0; s < kv->len[h]; s++) {
        if (a->state[row * a->ld + s] != LH_ENTRY_COMPETES) continue;
        uint32_t mine = lh_score_key(scores[s]);
        count += mine > key || (mine == key && lh_position(kv, h, s) <= position);
    }
    return count;
}

/* The count-th best entry as (key, position), found bit by bit; 1 <= count <= competing entries. */
static void find_last(const lh_select_top_args *a, int64_t row, int64_t count, uint32_t *key, int64_t *position)
{
    *key = 0; /* the largest key that still has `count` entries at it or above */
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (count_until(a, row, *key | bit, INT32_MAX) >= count) *key |= bit;
    }
    *position = INT32_MAX; /* the lowest position that completes them */
    for (int64_t bit = (int64_t)1 << 30; bit; bit >>= 1) {
        if (count_until(a, row, *key, *position - bit) >= count) *position -= bit;
    }
}

static void select_row(const lh_select_top_args *a, int64_t row)
{
    int64_t h, held = count_until(a, row, 0, INT32_MAX),
               count = lh_row_count(a, row) < held ? lh_row_count(a, row) : held;
    int64_t position = -1; /* before every entry, for a count of 0 */
    const lh_ragged *kv = lh_cache_of_row(a->kv, row, &h);
    const float *scores = lh_row_scores(a, row);
    uint32_t key = UINT32_MAX;
    if (count > 0) find_last(a, row, count, &key, &position);
    for (int64_t s = 0; s < kv->len[h]; s++) {
        uint8_t *state = a->state + row * a->ld + s;
        if (*state != LH_ENTRY_COMPETES) continue;
        uint32_t mine = lh_score_key(scores[s]);
        int keep = mine > key || (mine == key && lh_position(kv, h, s) <= position);
        *state = (uint8_t)(keep ? LH_ENTRY_KEEP : a->others);
    }
}

lh_status lh_ref_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    (void)stream;
    for (int64_t row = 0; row < a->batch * a->kv->heads; row++) select_row(a, row);
    return LH_OK;
}

/* ---- the order of each head's entries ---- */
static uint32_t key_at(const lh_order_entries_args *a, int64_t h, int64_t s)
{
    return a->scores ? lh_score_key(a->scores[h * a->ld + s]) : 0;
}

/* Entries of head h before the entry in slot s. */
static int64_t count_before(const lh_order_entries_args *a, int64_t h, int64_t s)
{
    uint32_t key = key_at(a, h, s);
    int64_t position = lh_position(a->kv, h, s), count = 0;
    for (int64_t other = 0; other < a->kv->len[h]; other++) {
        if (a->state[h * a->ld + other] != a->of) continue;
        uint32_t its = key_at(a, h, other);
        count += its > key || (its == key && lh_position(a->kv, h, other) < position);
    }
    return count;
}

lh_status lh_ref_order_entries(lh_stream *stream, const lh_order_entries_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        a->counts[h] = 0;
        for (int64_t s = 0; s < a->kv->len[h]; s++) {
            if (a->state[h * a->ld + s] != a->of) continue;
            a->order[h * a->ld + count_before(a, h, s)] = (int32_t)s;
            a->counts[h]++;
        }
    }
    return LH_OK;
}

lh_status lh_ref_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    (void)stream;
    assert(a->bits > 0 && a->prefix_bits + a->bits <= 32);
    for (int64_t r = 0; r < a->batch * a->kv->heads; r++) {
        const lh_histogram_row row = lh_histogram_row_at(a, r);
        for (int64_t b = 0; b < (int64_t)1 << a->bits; b++) row.bins[b] = 0;
        for (int64_t s = 0; s < row.len; s++) {
            int64_t bin = lh_histogram_bin(a, &row, s);
            if (bin >= 0) row.bins[bin]++;
        }
    }
    return LH_OK;
}

lh_status lh_ref_count_best(lh_stream *stream, const lh_count_best_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        int64_t count = 0;
        for (int64_t s = 0; s < a->kv->len[h]; s++) count += lh_is_best(a, h, s);
        a->counts[h] = lh_count_within(a, count);
    }
    return LH_OK;
}

/* ---- budgets of heads (head_budgets.h) ---- */
lh_status lh_ref_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    (void)stream;
    lh_add_all_histograms(a);
    return LH_OK;
}

lh_status lh_ref_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    (void)stream;
    lh_refine_all(a);
    return LH_OK;
}

lh_status lh_ref_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t *lags = NULL;
    LH_TRY(lh_stream_scratch(stream, &lags, a->of.heads * a->of.layers * (int64_t)sizeof *lags));
    for (int64_t i = 0; i < lh_contest_count(&a->of); i++) {
        lh_contest c = lh_contest_at(&a->of, i);
        lh_give_last(a, c, lh_give_rounds(a, c, lh_give_shares(a, c, lags), lags), lags, 0, 1);
    }
    return LH_OK;
}
