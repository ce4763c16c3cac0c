/* The best competing entries of each head. */
#include "kernels/ref/ref.h"
#include "kernels/score_rows.h"

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

/* The count-th best entry as (key, position), found bit by bit; count is at least 1 and at most what competes. */
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
    int64_t position = -1; /* of a count of 0: before every entry */
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
