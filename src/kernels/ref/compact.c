/* Moving the entries that are kept to the front of their heads. */
#include <string.h>

#include "kernels/ref/ref.h"

/* Entry `to` of head h in dst = entry `from` of head h in src. */
static void move_entry(const lh_ragged *dst, int64_t to, const lh_ragged *src, int64_t from, int64_t h)
{
    int64_t bytes = src->head_dim * lh_dtype_bytes(src->type), at = dst->offset[h] + to, of = src->offset[h] + from;
    memmove((char *)dst->k + at * bytes, (const char *)src->k + of * bytes, (size_t)bytes);
    memmove((char *)dst->v + at * bytes, (const char *)src->v + of * bytes, (size_t)bytes);
    dst->positions[at] = (int32_t)lh_position(src, h, from);
    if (dst->bias) dst->bias[at] = src->bias ? src->bias[of] : 0.0f;
    for (int64_t c = 0; dst->stats && c < dst->stat_count; c++)
        dst->stats[at * dst->stat_count + c] = src->stats[of * src->stat_count + c];
}

static int64_t compact_in_order(const lh_compact_args *a, int64_t h)
{
    int64_t kept = 0;
    for (int64_t s = 0; s < a->src->len[h]; s++) {
        if (a->state[h * a->ld + s] == LH_ENTRY_KEEP) move_entry(a->dst, kept++, a->src, s, h);
    }
    return kept;
}

static int64_t compact_fill(const lh_compact_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    int64_t kept = 0, last = a->src->len[h];
    for (int64_t s = 0; s < a->src->len[h]; s++) kept += state[s] == LH_ENTRY_KEEP;
    for (int64_t s = 0; s < kept; s++) {
        int64_t from = s;
        if (state[s] != LH_ENTRY_KEEP) {
            do {
                last--;
            } while (state[last] != LH_ENTRY_KEEP);
            from = last;
        }
        move_entry(a->dst, s, a->src, from, h);
    }
    return kept;
}

lh_status lh_ref_compact(lh_stream *stream, const lh_compact_args *a)
{
    (void)stream;
    assert(!a->dst->stats || a->dst->stat_count == a->src->stat_count);
    for (int64_t h = 0; h < a->src->heads; h++)
        a->dst->len[h] = a->kind == LH_COMPACT_FILL ? compact_fill(a, h) : compact_in_order(a, h);
    return LH_OK;
}
