/* The best competing entries of each head. */
#include "kernels/ref/ref.h"

/* Competing entries of head h that come before or at (key, position) in the order of select_top. */
static int64_t count_until(const lh_select_top_args *a, int64_t h, uint32_t key, int64_t position)
{
    int64_t count = 0;
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        if (a->state[h * a->ld + s] != LH_ENTRY_COMPETES) continue;
        uint32_t mine = lh_score_key(a->scores[h * a->ld + s]);
        count += mine > key || (mine == key && lh_position(a->kv, h, s) <= position);
    }
    return count;
}

/* The count-th best entry as (key, position), found bit by bit; count is at least 1 and at most what competes. */
static void find_last(const lh_select_top_args *a, int64_t h, int64_t count, uint32_t *key, int64_t *position)
{
    *key = 0; /* the largest key that still has `count` entries at it or above */
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (count_until(a, h, *key | bit, INT32_MAX) >= count) *key |= bit;
    }
    *position = INT32_MAX; /* the lowest position that completes them */
    for (int64_t bit = (int64_t)1 << 30; bit; bit >>= 1) {
        if (count_until(a, h, *key, *position - bit) >= count) *position -= bit;
    }
}

lh_status lh_ref_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        int64_t held = count_until(a, h, 0, INT32_MAX), count = a->counts[h] < held ? a->counts[h] : held;
        uint32_t key = UINT32_MAX;
        int64_t position = -1; /* of a count of 0: before every entry */
        if (count > 0) find_last(a, h, count, &key, &position);
        for (int64_t s = 0; s < a->kv->len[h]; s++) {
            uint8_t *state = a->state + h * a->ld + s;
            if (*state != LH_ENTRY_COMPETES) continue;
            uint32_t mine = lh_score_key(a->scores[h * a->ld + s]);
            int keep = mine > key || (mine == key && lh_position(a->kv, h, s) <= position);
            *state = (uint8_t)(keep ? LH_ENTRY_KEEP : a->others);
        }
    }
    return LH_OK;
}
