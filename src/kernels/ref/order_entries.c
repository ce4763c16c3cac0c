/* The entries of each head by score. */
#include "kernels/ref/ref.h"

static uint32_t key_at(const lh_order_entries_args *a, int64_t h, int64_t s)
{
    return a->scores ? lh_score_key(a->scores[h * a->ld + s]) : 0;
}

/* Entries of head h that come before the one in slot s. */
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
